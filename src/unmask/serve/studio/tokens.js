/** Tokens shown as text and selected by click, drag, arrow keys and Space. */

import { clamp, make } from "./dom.js";
import { span, wordAt } from "./words.js";

/**
 * What a position shows.
 * @typedef {object} Cell
 * @property {?string} text null: a gap with unknown text
 * @property {"given" | "new" | "masked"} kind
 * @property {boolean} [marked] selected for masking
 * @property {boolean} [fresh] just revealed
 * @property {string} [colour] the colour of its step
 * @property {string} [about] description for screen readers
 */

export class TokenView {
  /**
   * @param {object} how
   * @param {string} how.label
   * @param {() => boolean} how.byWord whether to select words instead of tokens
   * @param {(places: number[], on: boolean) => void} how.choose
   * @param {(place: number, element: Element) => void} [how.look] called when a position is hovered or focused
   * @param {() => void} [how.leave]
   * @param {string} [how.end] what the end of the text shows
   */
  constructor(how) {
    this.how = how;
    this.cells = [];
    this.current = 0;
    this.drag = null;
    this.root = make("div", {
      class: "tokens", role: "listbox", "aria-multiselectable": "true", "aria-label": how.label, tabindex: 0,
      onpointerdown: (event) => this.down(event),
      onpointermove: (event) => this.over(event),
      onpointerup: () => this.up(),
      onpointercancel: () => this.abandon(),
      onclick: (event) => this.tapped(event),
      onpointerleave: () => how.leave?.(),
      onkeydown: (event) => this.key(event),
      onfocusin: (event) => this.focused(event),
      onfocusout: () => how.leave?.(),
    });
  }

  /** @param {Cell[]} cells */
  draw(cells) {
    this.cells = cells;
    const { children } = this.root;
    while (children.length > cells.length) this.root.lastChild.remove();
    while (children.length < cells.length) {
      this.root.append(make("span", { role: "option", tabindex: -1, "data-place": children.length }));
    }
    cells.forEach((cell, i) => drawCell(children[i], cell));
    this.current = clamp(this.current, 0, Math.max(0, cells.length - 1));
    this.root.tabIndex = cells.length ? -1 : 0;
    this.rove(this.current);
  }

  placeOf(target) {
    const element = target?.closest?.("[data-place]");
    return element && this.root.contains(element) ? Number(element.dataset.place) : null;
  }

  /** The positions selected together with a position: its word, or only itself. */
  unit(place) {
    return this.how.byWord() ? wordAt(this.cells, place) : [place, place + 1];
  }

  down(event) {
    const place = this.placeOf(event.target);
    if (place === null || event.button !== 0) return;
    event.preventDefault();
    this.root.children[place].focus({ preventScroll: true });
    this.how.leave?.();
    this.drag = { from: place, to: place, on: !this.cells[place].marked };
    this.preview();
  }

  over(event) {
    const place = this.placeOf(document.elementFromPoint(event.clientX, event.clientY));
    if (this.drag === null) {
      if (place !== null && event.pointerType === "mouse") this.how.look?.(place, this.root.children[place]);
      else if (place === null) this.how.leave?.();
    } else if (place !== null && place !== this.drag.to) {
      this.drag.to = place;
      this.preview();
    }
  }

  /** The positions of the current drag, extended to whole words if words are selected. */
  dragged() {
    const { from, to } = this.drag;
    return span(this.unit(Math.min(from, to))[0], this.unit(Math.max(from, to))[1]);
  }

  preview() {
    const chosen = new Set(this.drag === null ? [] : this.dragged());
    [...this.root.children].forEach((child, i) => child.classList.toggle("dragged", chosen.has(i)));
  }

  up() {
    if (this.drag === null) return;
    const places = this.dragged(), { on } = this.drag;
    this.abandon();
    this.how.choose(places, on);
  }

  /** Touch has no hover. */
  tapped(event) {
    const place = this.placeOf(event.target);
    if (place !== null && event.pointerType !== "mouse") this.how.look?.(place, this.root.children[place]);
  }

  abandon() {
    this.drag = null;
    this.preview();
  }

  focused(event) {
    const place = this.placeOf(event.target);
    if (place === null || this.drag !== null) return;
    this.rove(place);
    if (event.target.matches(":focus-visible")) this.how.look?.(place, event.target);
  }

  /** Tab reaches one token, the arrow keys the others. */
  rove(place) {
    this.root.children[this.current]?.setAttribute("tabindex", -1);
    this.current = place;
    this.root.children[place]?.setAttribute("tabindex", 0);
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || !this.cells.length) return;
    const [start, end] = this.unit(this.current);
    if (event.key === " " || event.key === "Enter") {
      this.how.choose(span(start, end), !this.cells[this.current].marked);
    } else {
      const to = this.target(event.key, start, end);
      if (to === null) return;
      this.root.children[to].focus();
      if (event.shiftKey) this.how.choose(span(...this.unit(to)), true);
    }
    event.preventDefault();
    event.stopPropagation();
  }

  /** The position that a key moves to, or null. */
  target(key, start, end) {
    const last = this.cells.length - 1;
    if (key === "ArrowRight") return Math.min(end, last);
    if (key === "ArrowLeft") return start > 0 ? this.unit(start - 1)[0] : 0;
    if (key === "Home") return 0;
    if (key === "End") return last;
    if (key === "ArrowDown" || key === "ArrowUp") return this.nextLine(key === "ArrowDown" ? 1 : -1);
    return null;
  }

  /** The position below or above the current one. */
  nextLine(direction) {
    const { children } = this.root, here = children[this.current];
    let best = this.current, distance = Infinity;
    [...children].forEach((child, i) => {
      const lines = direction * (child.offsetTop - here.offsetTop);
      const far = lines > 4 ? lines * 100 + Math.abs(child.offsetLeft - here.offsetLeft) : Infinity;
      if (far < distance) [best, distance] = [i, far];
    });
    return best;
  }
}

/** A token's text: its leading space stays outside its box, and a newline gets a sign inside one. */
export function inked(text) {
  if (/^\n+$/.test(text)) return [make("span", { class: "ink newline" }, "⏎".repeat(text.length)), text];
  const space = text.trim() === "" ? "" : text.slice(0, text.length - text.trimStart().length);
  return [space, make("span", { class: "ink" }, text.slice(space.length))].filter((part) => part !== "");
}

/** @param {Element} element @param {Cell} cell */
function drawCell(element, { text, kind, marked = false, fresh = false, colour = "", about = "" }) {
  const shown = [text, kind, marked, fresh, colour, about].join("\0");
  if (element.shown === shown) return; // most positions do not change from frame to frame
  element.shown = shown;
  const gap = text === null;
  element.replaceChildren(...inked(gap ? "\u2003" : text));
  element.className = ["token", kind, fresh && "fresh", marked && "marked", gap && "gap"].filter(Boolean).join(" ");
  element.style.setProperty("--step", colour);
  element.setAttribute("aria-selected", marked);
  element.setAttribute("aria-label", [gap ? "gap" : spoken(text), about].filter(Boolean).join(", "));
}

function spoken(text) {
  if (text === "") return "nothing";
  return text.trim() || (text.includes("\n") ? "newline" : "space");
}
