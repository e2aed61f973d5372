/** Small helpers to build and find elements. */

const SVG = "http://www.w3.org/2000/svg";

/** The element with this id. */
export const find = (id) => document.getElementById(id);

/** Create an element: `on…` properties are listeners, others are attributes (false and null are left out). */
export function make(tag, properties = {}, ...children) {
  return filled(document.createElement(tag), properties, children);
}

/** Create an SVG element. */
export function draw(tag, properties = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), properties, children);
}

function filled(element, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === false || value === null || value === undefined) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** A button with a text or an icon, and its action. */
export function button(text, onclick, properties = {}) {
  return make("button", { type: "button", onclick, ...properties }, text);
}

let fields = 0;

/** A labelled control, with optional help text below it. */
export function field(name, control, help = null) {
  const id = `field-${(fields += 1)}`;
  control.id = id;
  if (help !== null) {
    help.id = `${id}-help`;
    control.setAttribute("aria-describedby", help.id);
  }
  return make("div", { class: "field" }, make("label", { class: "name", for: id }, name), control, help);
}

/** Debounce: run `work` once there has been no call for so many milliseconds. */
export function later(milliseconds, work) {
  let timer = 0;
  const call = (...values) => {
    clearTimeout(timer);
    timer = setTimeout(() => work(...values), milliseconds);
  };
  call.cancel = () => clearTimeout(timer);
  return call;
}

/** Whether the user prefers reduced motion. */
export const still = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

/** Limit a number to a range. */
export const clamp = (value, least, most) => Math.min(most, Math.max(least, value));

/** "1 token", "3 tokens". */
export const count = (number, word) => `${number} ${word}${number === 1 ? "" : "s"}`;

/** Copy a text to the clipboard; false if the browser does not allow it. */
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copiedByHand(text);
  }
}

/** The fallback for pages served neither from localhost nor over HTTPS, which have no clipboard API. */
function copiedByHand(text) {
  const area = make("textarea", { class: "unseen", "aria-hidden": "true" });
  area.value = text;
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  return done;
}
