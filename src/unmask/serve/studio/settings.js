/** The form with the sampling settings of a model. */

import { Refused } from "./api.js";
import { button, field, make } from "./dom.js";
import { icon } from "./icons.js";

/** The style of each kind of law. */
const KINDS = { "exact": "exact", "exact for T steps": "exact", "biased": "biased" };

const number = (properties) => make("input", { type: "number", inputmode: "decimal", ...properties });

const sentence = (text) => `${text[0].toUpperCase()}${text.slice(1)}.`;

export class Settings {
  /** @param {() => void} changed */
  constructor(changed) {
    this.changed = changed;
    this.model = null;
    this.sampler = make("select", { onchange: () => this.update() });
    this.law = make("span", { class: "law" });
    this.summary = make("span", { class: "help" });
    this.steps = number({ min: 1, step: 1, placeholder: "auto", oninput: () => this.update() });
    this.stepsHelp = make("span", { class: "help" });
    this.temperature = number({ min: 0, max: 100, step: 0.05, value: 1, oninput: () => this.update() });
    this.guidance = number({ min: 0, max: 100, step: 0.1, placeholder: "none", oninput: () => this.update() });
    this.seed = number({ min: 0, step: 1, placeholder: "random", "aria-label": "Seed" });
    this.variants = number({ min: 1, step: 1, value: 2, inputmode: "numeric" });
    this.label = make("select", { onchange: () => changed() });
    this.labelField = field("Class", this.label);
    this.root = make("div", { class: "settings" }, ...this.fields());
    // scrolling over a focused number would change it unnoticed
    this.root.addEventListener("wheel", () => document.activeElement?.type === "number" && document.activeElement.blur());
  }

  fields() {
    const dice = button(icon("dice"), () => this.throwDice(), { class: "icon", "aria-label": "New seed", title: "New seed" });
    return [
      field("Sampler", this.sampler, make("span", { class: "below" }, this.law, this.summary)),
      this.labelField,
      make("div", { class: "pair" }, field("Steps", this.steps, this.stepsHelp), field("Variants", this.variants)),
      make("div", { class: "pair" }, field("Temperature", this.temperature), field("Guidance", this.guidance)),
      make("div", { class: "field" }, make("span", { class: "name" }, "Seed"), make("span", { class: "joined" }, this.seed, dice)),
    ];
  }

  throwDice() {
    this.seed.value = crypto.getRandomValues(new Uint32Array(1))[0];
  }

  /** Offer the options of a model. */
  use(model) {
    const before = this.sampler.value;
    this.model = model;
    this.sampler.replaceChildren(...model.samplers.map((one) => new Option(one.name, one.name)));
    this.sampler.value = model.samplers.some((one) => one.name === before) ? before : model.sampler;
    this.label.replaceChildren(new Option("any", ""), ...model.classes.map((name, i) => new Option(name, i)));
    this.labelField.hidden = model.classes.length === 0;
    this.variants.max = model.limits.samples;
    this.steps.max = model.limits.steps;
    this.update();
  }

  update() {
    const found = this.model.samplers.find((one) => one.name === this.sampler.value);
    const changes = this.changesOfLaw();
    const law = changes ? "biased" : found.law;
    this.law.textContent = law;
    this.law.className = `law ${KINDS[law] ?? "near"}`;
    this.summary.textContent = `${sentence(found.summary)} ${changes ? `${changes} changes the distribution.` : `Samples follow ${found.meaning}.`}`;
    this.steps.disabled = !found.grid;
    this.stepsHelp.textContent = found.grid ? "" : "set by the sampler";
    this.changed();
  }

  /** The setting that changes the distribution of even an exact sampler. */
  changesOfLaw() {
    if (Number(this.temperature.value || 1) !== 1) return "This temperature";
    const { value } = this.guidance;
    return value !== "" && Number(value) !== 1 ? "Guidance" : "";
  }

  get n() {
    return Number(this.variants.value || 1);
  }

  get class() {
    return this.label.value === "" ? null : Number(this.label.value);
  }

  /** The settings as fields of a request body. */
  body() {
    const given = (input) => (input.value.trim() === "" || input.disabled ? undefined : Number(input.value));
    if (given(this.seed) > Number.MAX_SAFE_INTEGER) {
      throw new Refused(`this seed is too large for a browser: got ${this.seed.value}, allowed: at most ${Number.MAX_SAFE_INTEGER}; use the API instead`);
    }
    return {
      model: this.model.id,
      sampler: this.sampler.value,
      steps: given(this.steps),
      temperature: given(this.temperature) ?? 1,
      guidance: given(this.guidance),
      seed: given(this.seed),
      label: this.class ?? undefined,
    };
  }
}
