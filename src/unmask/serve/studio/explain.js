/** The tab that explains masked diffusion, with figures computed in the page. */

import { count, draw, field, make } from "./dom.js";
import { chart, curve, dot, line } from "./plots.js";
import { GRIDS, SCHEDULES, alpha, expectedReveals } from "./schedules.js";

const SENTENCE = "A model that has learned to fill any gap can write a whole page: it starts from nothing but gaps and fills them a few at a time, in any order.";
const TIMES = Array.from({ length: 201 }, (_, i) => i / 200);
const NAMES = Object.keys(SCHEDULES);

/** Fixed quasi-random numbers, so that the same slider position always masks the same words. */
const chances = (number) => Array.from({ length: number }, (_, i) => ((i + 1) * 0.6180339887498949) % 1);

export class Explain {
  constructor() {
    this.schedule = make("select", { onchange: () => this.draw() }, ...NAMES.map((name) => new Option(name, name)));
    this.grid = make("select", { onchange: () => this.draw() }, ...Object.keys(GRIDS).map((name) => new Option(`${name} grid`, name)));
    this.grid.value = "cosine";
    this.time = slider(0, 1, 0.005, 0.5, () => this.draw());
    this.power = slider(0.5, 5, 0.1, 2, () => this.draw());
    this.steps = slider(2, 64, 1, 16, () => this.draw());
    this.powerField = field("Exponent w", this.power);
    this.words = SENTENCE.split(" ").map((word) => make("span", { class: "token given" }, make("span", { class: "ink" }, word)));
    this.chances = chances(this.words.length);
    this.told = make("p", { class: "told", role: "status" });
    this.alphaFigure = make("div", { class: "plot", id: "figure-alpha" });
    this.weightFigure = make("div", { class: "plot", id: "figure-weight" });
    this.stepsFigure = make("div", { class: "plot", id: "figure-steps" });
    this.stepsTold = make("p", { class: "told" });
    this.root = this.layout();
    this.draw();
    new ResizeObserver(() => this.draw()).observe(this.stepsFigure);
  }

  layout() {
    const sentence = make("p", { class: "tokens sentence" }, ...this.words.flatMap((word) => [word, " "]));
    const p = (...parts) => make("p", {}, ...parts), h = (text) => make("h2", {}, text);
    return make(
      "article", { class: "prose" },
      h("Hide, then learn to reveal"),
      p("Take a text and hide each token behind a mask, independently and with the same probability. At time t = 0 nothing is hidden, at t = 1 everything is. A ", make("em", {}, "schedule"), " α sets the pace: at time t, a token is still visible with probability α", make("sub", {}, "t"), " and hidden with probability 1 − α", make("sub", {}, "t"), ". Move the slider to change the time:"),
      make("div", { class: "controls" }, field("Schedule", this.schedule), this.powerField, field("Time t", this.time)),
      make("div", { class: "sheet" }, sentence), this.told,
      make("div", { class: "figures-row" }, figure(this.alphaFigure, "Share of visible tokens. The dot marks the time above."), figure(this.weightFigure, "Weight of a masked token in the loss at that time.")),
      legend(),
      h("What the network learns"),
      p("A network sees the visible tokens and predicts every hidden one. Its loss is the surprise of each, in bits. Averaged over all times with the weight −α′/(1 − α), this bounds how many bits the model needs for the whole text, so losses can be compared fairly. The bound is the same for every schedule; only its noise differs. Early times hide little, so each hidden token counts more."),
      h("Generating is masking in reverse"),
      p("To generate a text, start at t = 1 with masks only and go back to t = 0. From a time t to an earlier time s, each masked token is revealed with probability (α", make("sub", {}, "s"), " − α", make("sub", {}, "t"), ")/(1 − α", make("sub", {}, "t"), ") and drawn from the network's prediction for it. Tokens revealed in the same step do not see each other, so revealing only a few at a time while most are still hidden avoids contradictions. The schedule and the grid of times determine how many tokens are revealed at each step:"),
      make("div", { class: "controls" }, field("Time grid", this.grid), field("Steps T", this.steps)),
      figure(this.stepsFigure, "Expected number of tokens revealed at each step, out of 256."), this.stepsTold,
      h("Exact or biased"),
      p("Samplers that choose at random which tokens to reveal follow the learned distribution, more closely the more steps they take. Samplers that start where the network is most certain, or that change the temperature, often read better but favour some texts over others. The studio labels each sampler accordingly."),
    );
  }

  get values() {
    return { name: this.schedule.value, w: Number(this.power.value), t: Number(this.time.value) };
  }

  draw() {
    this.powerField.hidden = this.schedule.value !== "polynomial";
    this.drawSentence();
    this.drawAlpha();
    this.drawWeight();
    this.drawSteps();
  }

  drawSentence() {
    const { name, w, t } = this.values, hidden = 1 - alpha(name, t, w);
    const masked = this.chances.map((chance) => chance < hidden);
    this.words.forEach((word, i) => (word.className = `token ${masked[i] ? "masked" : "given"}`));
    const number = masked.filter(Boolean).length;
    this.told.textContent = `t = ${t.toFixed(3)}: each word is hidden with probability ${hidden.toFixed(3)}; here ${number} of ${count(masked.length, "word")}. ${SCHEDULES[name].formula}`;
  }

  drawAlpha() {
    const { name, w, t } = this.values;
    const plot = chart({ width: widthOf(this.alphaFigure), x: [0, 1], y: [0, 1], xName: "time t", yName: "visible αₜ", xTicks: [0, 0.25, 0.5, 0.75, 1], yTicks: [0, 0.25, 0.5, 0.75, 1], title: `α over time; ${alpha(name, t, w).toFixed(2)} at ${t.toFixed(2)}` });
    for (const one of NAMES) plot.svg.append(curve(plot, TIMES.map((at) => [at, alpha(one, at, w)]), kind(one, name)));
    plot.svg.append(line("now", plot.x(t), plot.top, plot.x(t), plot.bottom), dot(plot, t, alpha(name, t, w), kind(name, name)));
    this.alphaFigure.replaceChildren(plot.svg);
  }

  drawWeight() {
    const { name, w, t } = this.values;
    const plot = chart({ width: widthOf(this.weightFigure), x: [0, 1], y: [0.1, 200], logY: true, xName: "time t", yName: "weight −α′/(1 − α)", xTicks: [0, 0.25, 0.5, 0.75, 1], yTicks: [0.1, 1, 10, 100], title: `Loss weight over time, ${name} schedule` });
    const weight = (one, at) => Math.max(1e-9, SCHEDULES[one].weight(Math.max(at, 1e-3), w));
    for (const one of NAMES) plot.svg.append(curve(plot, TIMES.map((at) => [at, weight(one, at)]), kind(one, name)));
    plot.svg.append(line("now", plot.x(t), plot.top, plot.x(t), plot.bottom), dot(plot, t, weight(name, t), kind(name, name)));
    this.weightFigure.replaceChildren(plot.svg);
  }

  drawSteps() {
    const { name, w } = this.values, steps = Number(this.steps.value), tokens = 256;
    const reveals = expectedReveals(name, this.grid.value, steps, tokens, w);
    const most = Math.max(...reveals), top = niceTop(most);
    const tickEvery = Math.max(1, Math.round(steps / 8));
    const ticks = Array.from({ length: steps }, (_, i) => i + 1).filter((i) => i === 1 || i % tickEvery === 0);
    const plot = chart({ width: widthOf(this.stepsFigure), x: [0.5, steps + 0.5], y: [0, top], xName: "step", yName: "tokens revealed", xTicks: ticks, yTicks: ticksTo(top), title: `Expected tokens per step, ${name} schedule, ${this.grid.value} grid` });
    reveals.forEach((value, i) => {
      const [from, to] = [plot.x(i + 0.58), plot.x(i + 1.42)];
      plot.svg.append(draw("rect", { class: `column ${kind(name, name)}`, x: from, width: to - from, y: plot.y(value), height: plot.bottom - plot.y(value) }, draw("title", {}, `step ${i + 1}: ${value.toFixed(1)} tokens`)));
    });
    this.stepsFigure.replaceChildren(plot.svg);
    this.stepsTold.textContent = `First step: ${reveals[0].toFixed(1)} tokens; most in one step: ${most.toFixed(1)}; ${(tokens / steps).toFixed(1)} on average.`;
  }
}

/** A chart is as wide as its container, so that its text keeps its size. */
const widthOf = (place) => Math.min(960, Math.max(260, place.clientWidth || 460));

const kind = (one, chosen) => `s-${one}${one === chosen ? " chosen" : ""}`;

function slider(min, max, step, value, oninput) {
  return make("input", { type: "range", min, max, step, value, oninput });
}

const figure = (plot, caption) => make("figure", {}, plot, make("figcaption", {}, caption));

const legend = () => make("p", { class: "legend curves" }, ...NAMES.map((name) => make("span", { class: "key" }, draw("svg", { viewBox: "0 0 34 8", class: "key-line", "aria-hidden": "true" }, line(`curve chosen s-${name}`, 0, 4, 34, 4)), name)));

function ticksTo(top) {
  const parts = String(top / 10 ** Math.floor(Math.log10(top) + 1e-9)).match(/^[36]/) ? 3 : 4;
  return Array.from({ length: parts + 1 }, (_, i) => (top * i) / parts);
}

function niceTop(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return power * [1, 2, 3, 4, 6, 8, 10].find((step) => step * power >= value);
}
