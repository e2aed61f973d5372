/** The tab that shows the cost of each token of a text, in bits. */

import { Refused, post } from "./api.js";
import { bubble, hideBubble, visible } from "./bubble.js";
import { button, count, field, make } from "./dom.js";
import { KEYS } from "./runner.js";
import { inked } from "./tokens.js";
import { clearError, describe, fail, ofKind, offer, say } from "./page.js";

export class Surprise {
  /** @param {() => string} written the text of the other tab */
  constructor(written) {
    this.models = ofKind("text");
    this.found = null;
    this.abort = null;
    this.model = make("select", { onchange: () => (this.about.textContent = describe(this.served)) });
    this.about = make("span", { class: "help" });
    this.area = make("textarea", { rows: 4, spellcheck: "false", placeholder: "Type or paste text to measure." });
    this.draws = make("input", { type: "number", min: 1, max: 64, value: 8 });
    this.repeats = make("input", { type: "number", min: 2, max: 16, value: 4 });
    this.go = button("Measure", () => this.run(), { class: "primary" });
    this.go.append(make("kbd", {}, KEYS));
    this.total = make("div", { class: "figures", role: "status" });
    this.heat = make("div", { class: "tokens heat", role: "list", "aria-label": "Tokens with their surprise", onpointerleave: hideBubble });
    this.legend = make("p", { class: "legend", hidden: true });
    this.root = this.layout(written);
    offer(this.model, this.models);
    this.about.textContent = describe(this.served);
  }

  layout(written) {
    const take = button("Use text from Write", () => (this.area.value = written()));
    return make(
      "div", { class: "columns" },
      make(
        "div", { class: "work" },
        make("p", { class: "lead" }, "How many bits does the model need for each token when tokens are revealed in random order? Few if the context gives it away, many if it is a surprise."),
        make("section", { class: "board" }, field("Text", this.area), make("div", { class: "tools" }, take)),
        make("div", { class: "go" }, this.go),
        make("section", { class: "results" }, this.total, make("div", { class: "sheet" }, this.heat), this.legend),
      ),
      make(
        "details", { class: "side", open: matchMedia("(min-width: 60rem)").matches },
        make("summary", {}, "Model and precision"), field("Model", this.model, this.about),
        make("div", { class: "pair" }, field("Draws", this.draws), field("Repeats", this.repeats)),
        make("p", { class: "help" }, "The error falls with the square root of draws × repeats."),
      ),
    );
  }

  get served() {
    return this.models.find((model) => model.id === this.model.value);
  }

  async run() {
    this.cancel();
    clearError();
    const abort = (this.abort = new AbortController());
    this.root.setAttribute("aria-busy", "true");
    this.go.disabled = true;
    try {
      if (!this.area.value) throw new Refused("there is no text to measure");
      const model = this.served;
      const body = { model: model.id, text: this.area.value, draws: Number(this.draws.value), repeats: Number(this.repeats.value) };
      this.found = await post("/api/score", body, abort.signal);
      this.draw(model);
      say(`${this.found.bits.toFixed(1)} bits`);
    } catch (error) {
      fail(error);
    } finally {
      if (this.abort === abort) {
        this.go.disabled = false;
        this.root.removeAttribute("aria-busy");
      }
    }
  }

  cancel() {
    this.abort?.abort();
  }

  /** Show the scores from the model that computed them. */
  draw(model) {
    const { tokens, bits, error, bits_per_token: each } = this.found;
    this.heat.classList.toggle("letters", !model.subwords);
    const most = Math.max(...tokens.map((token) => token.bits), 1);
    this.heat.replaceChildren(...tokens.map((token) => this.token(token, most)));
    const characters = [...tokens.map((token) => token.text).join("")].length;
    this.total.replaceChildren(
      figure(`${bits.toFixed(1)} ± ${error.toFixed(1)}`, `bits for ${count(tokens.length, "token")}`),
      figure(each.toFixed(2), "bits per token"),
      figure((bits / Math.max(1, characters)).toFixed(2), "bits per character"),
    );
    const scale = make("span", { class: "scale heat-scale", "aria-hidden": "true" });
    this.legend.hidden = false;
    this.legend.replaceChildren("0 bits", scale, `${most.toFixed(1)} bits`, make("span", { class: "hint" }, "Hover over a token, or press Tab to reach it, to see its bits. The total is an upper bound: the model needs no more."));
  }

  token(token, most) {
    const shown = `${token.bits.toFixed(2)} ± ${token.error.toFixed(2)} bits`;
    const share = Math.max(0, token.bits) / most;
    const look = (event) => bubble(event.currentTarget, async () => [make("p", { class: "title" }, make("code", {}, visible(token.text)), ` ${shown}`)]);
    const element = make(
      "span", { class: "token hot", role: "listitem", tabindex: 0, "aria-label": `${token.text.trim() || (token.text ? "space" : "part of a character")}, ${shown}`, onpointerenter: look, onfocus: look, onblur: hideBubble },
      ...inked(token.text || "…"), // a byte of a character, which is shown at its last byte
    );
    element.style.setProperty("--share", `${(100 * share).toFixed(1)}%`);
    return element;
  }
}

function figure(value, name) {
  return make("div", { class: "figure" }, make("strong", {}, value), make("span", {}, name));
}
