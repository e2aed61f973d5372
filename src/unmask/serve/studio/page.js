/** What all parts of the page share: the models, the error line and the status line. */

import { Refused } from "./api.js";
import { find } from "./dom.js";

/** The models that are served. */
export const models = [];

export const ofKind = (kind) => models.filter((model) => model.kind === kind);

/** Show an error; a cancelled request is not an error. */
export function fail(error) {
  if (error?.name === "AbortError") return;
  find("error-text").textContent = error instanceof Refused ? error.message : `internal error in the page: ${error.message}`;
  find("error").hidden = false;
}

/** Hide the error. */
export function clearError() {
  find("error").hidden = true;
}

/** Announce a text to screen readers. */
export function say(text) {
  find("said").textContent = text;
}

/** Fill a select with these models. */
export function offer(select, found) {
  select.replaceChildren(...found.map((model) => new Option(model.id, model.id)));
}

/** For example "7,615 subwords · 8.4 M parameters". */
export function describe(model) {
  const size = model.parameters >= 1e6 ? `${(model.parameters / 1e6).toFixed(1)} M` : `${Math.round(model.parameters / 1e3)} k`;
  return `${model.vocabulary} · ${size} parameters`;
}
