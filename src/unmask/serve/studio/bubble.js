/** The bubble beside a token: its alternatives or its bits. */

import { find, later, make } from "./dom.js";

const PATIENCE = 140; // milliseconds that the pointer must rest on a token
let asked = 0;

const show = later(PATIENCE, async (element, content) => {
  const mine = asked;
  const filled = await content();
  if (mine === asked && filled !== null && element.isConnected) open(element, filled);
});

/** Show the result of `content` beside an element if the pointer rests there. */
export function bubble(element, content) {
  const box = find("bubble");
  if (box.owner === element && !box.hidden) return;
  asked += 1;
  show(element, content);
}

/** Hide it. */
export function hideBubble() {
  asked += 1;
  show.cancel();
  const box = find("bubble");
  box.owner?.removeAttribute("aria-describedby");
  box.owner = null;
  box.hidden = true;
}

function open(element, filled) {
  const box = find("bubble");
  box.owner?.removeAttribute("aria-describedby");
  box.replaceChildren(...filled);
  box.hidden = false;
  box.owner = element;
  element.setAttribute("aria-describedby", "bubble");
  const at = element.getClientRects()[0] ?? element.getBoundingClientRect();
  const { width, height } = box.getBoundingClientRect();
  const left = Math.max(8, Math.min(at.left + at.width / 2 - width / 2, document.documentElement.clientWidth - width - 8));
  const below = at.bottom + 8 + height < innerHeight || at.top < height + 16;
  box.style.setProperty("left", `${left + scrollX}px`);
  box.style.setProperty("top", `${(below ? at.bottom + 8 : at.top - height - 8) + scrollY}px`);
}

/** Alternatives as bars; `chosen` is the id of the token that was drawn. */
export function bars(title, rows, chosen) {
  const most = Math.max(...rows.map((row) => row.probability), 1e-9);
  return [
    make("p", { class: "title" }, title),
    make("ol", { class: "bars" }, ...rows.map((row) => bar(row, most, row.id === chosen))),
  ];
}

function bar(row, most, chosen) {
  const fill = make("span", { class: "fill" });
  fill.style.setProperty("width", `${(100 * row.probability) / most}%`);
  const shown = percent(row.probability);
  return make(
    "li", { class: chosen ? "chosen" : "" },
    make("code", {}, visible(row.text)), make("span", { class: "track", "aria-hidden": "true" }, fill), make("span", { class: "value" }, shown),
  );
}

const percent = (p) => (p >= 0.0995 ? `${Math.round(100 * p)} %` : p >= 0.0001 ? `${(100 * p).toPrecision(2)} %` : "< 0.01 %");

/** A token's text with visible whitespace. */
export function visible(text) {
  if (text === "") return "∎";
  return text.replaceAll(" ", "␣").replaceAll("\n", "⏎").replaceAll("\t", "⇥");
}
