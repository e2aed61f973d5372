/** What all parts of the page share: the models, one line for errors, one for what happens. */

import { Refused } from "./api.js";
import { find } from "./dom.js";

/** The models that are served. */
export const models = [];

export const ofKind = (kind) => models.filter((model) => model.kind === kind);

/** Show what went wrong; whatever was given up on purpose is no mistake. */
export function fail(error) {
  if (error?.name === "AbortError") return;
  find("error-text").textContent = error instanceof Refused ? error.message : `the page made a mistake: ${error.message}`;
  find("error").hidden = false;
}

/** Nothing is wrong any more. */
export function clearError() {
  find("error").hidden = true;
}

/** Tell those who cannot see it. */
export function say(text) {
  find("said").textContent = text;
}

/** Options of a select for these models. */
export function offer(select, found) {
  select.replaceChildren(...found.map((model) => new Option(model.id, model.id)));
}

/** "0.9 million parameters". */
export function describe(model) {
  const size = model.parameters >= 1e6 ? `${(model.parameters / 1e6).toFixed(1)} M` : `${Math.round(model.parameters / 1e3)} k`;
  return `${model.vocabulary} · ${size} parameters`;
}
