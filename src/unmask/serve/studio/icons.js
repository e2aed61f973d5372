/** Icons for buttons, drawn here so that they look the same on every system. */

import { draw } from "./dom.js";

const PATHS = {
  play: "M7 4.5v15l12-7.5z",
  pause: "M7 5h3.5v14H7zM13.5 5H17v14h-3.5z",
  back: "M6 5h2.5v14H6zM19 5v14l-9.5-7z",
  forward: "M15.5 5H18v14h-2.5zM5 5v14l9.5-7z",
  close: "M6.4 5 12 10.6 17.6 5 19 6.4 13.4 12l5.6 5.6-1.4 1.4-5.6-5.6L6.4 19 5 17.6l5.6-5.6L5 6.4z",
  undo: "M9 5 3.5 10 9 15v-3.2h4.5a3.6 3.6 0 0 1 0 7.2H8v2h5.5a5.6 5.6 0 0 0 0-11.2H9z",
  theme: "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18zm0 2v14a7 7 0 0 1 0-14z",
  dice: "M5 3h14a2 2 0 0 1 2 2v14a2 2 0 0 1-2 2H5a2 2 0 0 1-2-2V5a2 2 0 0 1 2-2zm0 2v14h14V5zm3 1.6a1.4 1.4 0 1 1 0 2.8 1.4 1.4 0 0 1 0-2.8zm8 0a1.4 1.4 0 1 1 0 2.8 1.4 1.4 0 0 1 0-2.8zm-4 4a1.4 1.4 0 1 1 0 2.8 1.4 1.4 0 0 1 0-2.8zm-4 4a1.4 1.4 0 1 1 0 2.8 1.4 1.4 0 0 1 0-2.8zm8 0a1.4 1.4 0 1 1 0 2.8 1.4 1.4 0 0 1 0-2.8z",
};

/** A decorative icon; its button carries the accessible name. */
export function icon(name) {
  return draw("svg", { viewBox: "0 0 24 24", class: "sign", "aria-hidden": "true" }, draw("path", { d: PATHS[name] }));
}
