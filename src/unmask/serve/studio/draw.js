/** The tab for drawing and completing images. */

import { Refused } from "./api.js";
import { finalOf } from "./cards.js";
import { ofStep } from "./colour.js";
import { button, field, make } from "./dom.js";
import { Filling, stepScale } from "./filling.js";
import { describe, fail, say } from "./page.js";
import { Brush, MASKED, MASKS, paint, sizesOf } from "./picture.js";

const TOOLS = [["pen", "Pen", "Draw; the model keeps these pixels"], ["paper", "Eraser", "Erase to the background; the model keeps these pixels"], ["mask", "Mask", "Mask pixels for the model to fill"]];

export class Draw extends Filling {
  constructor() {
    super("picture", "Complete");
    this.stroke = null;
    this.cursor = [0, 0];
    this.settings.variants.value = 4;
    this.byStep = make("input", { type: "checkbox", onchange: () => this.shelf.draw() });
    this.canvas = this.makeCanvas();
    this.mark = make("span", { class: "cursor", hidden: true, "aria-hidden": "true" });
    this.told = make("span", { class: "told" });
    const easel = make("section", { class: "board drawing", "aria-label": "Drawing" }, make("div", { class: "easel" }, this.canvas, this.mark), this.tools());
    this.root = this.layout(easel, make("label", { class: "check" }, this.byStep, "colour by step"), stepScale(), "first to last");
    this.shelf.root.classList.add("pictures");
    this.useModel();
  }

  makeCanvas() {
    return make("canvas", {
      class: "sketch", tabindex: 0, role: "img", "aria-label": "Drawing: arrow keys move the cursor, Space draws",
      onpointerdown: (event) => this.down(event),
      onpointermove: (event) => this.moveTo(event),
      onpointerup: () => (this.stroke = null),
      onpointercancel: () => (this.stroke = null),
      onkeydown: (event) => this.key(event),
      onfocus: (event) => (this.mark.hidden = !event.target.matches(":focus-visible")),
      onblur: () => (this.mark.hidden = true),
    });
  }

  tools() {
    const radio = ([value, name, title]) => {
      const input = make("input", { type: "radio", name: "tool", value, checked: value === "pen", onchange: () => (this.brush.tool = value) });
      return make("label", { class: "choice", title }, input, make("span", {}, name));
    };
    const width = make("input", { type: "range", min: 0.6, max: 5, step: 0.2, value: 1.2, oninput: () => (this.brush.radius = Number(width.value)) });
    this.ink = make("input", { type: "range", min: 1, max: 255, value: 255, oninput: () => this.dip() });
    this.colour = make("input", { type: "color", value: "#ffffff", oninput: () => this.dip() });
    this.inkField = field("Brightness", this.ink);
    this.colourField = field("Colour", this.colour);
    return make(
      "div", { class: "palette" },
      make("fieldset", { class: "choices" }, make("legend", { class: "name" }, "Tool"), ...TOOLS.map(radio)),
      field("Brush size", width), this.inkField, this.colourField,
      make(
        "div", { class: "field", role: "group", "aria-label": "Let the model fill" }, make("span", { class: "name" }, "Let the model fill"),
        make("div", { class: "tools" }, ...Object.entries(MASKS).map(([name, where]) => button(name, () => this.maskWhere(where))), button("Background", () => this.maskBlank())),
      ),
      make(
        "div", { class: "field", role: "group", "aria-label": "Reset" }, make("span", { class: "name" }, "Reset"),
        make("div", { class: "tools" }, button("Clear masks", () => this.fillPaper()), button("Clear all", () => this.clearPaper())),
      ),
      this.told,
    );
  }

  useModel() {
    this.runner.cancel();
    const sizes = sizesOf(this.served), before = this.brush;
    this.about.textContent = `${this.served.shape.join(" × ")}, ${describe(this.served)}`;
    this.settings.use(this.served);
    this.brush = new Brush(sizes);
    if (before) Object.assign(this.brush, { tool: before.tool, radius: before.radius });
    this.inkField.hidden = sizes.depth === 3;
    this.colourField.hidden = sizes.depth !== 3;
    this.past.forget();
    this.values = new Int32Array(sizes.width * sizes.height * sizes.depth).fill(MASKED);
    this.cursor = [Math.floor(sizes.width / 2), Math.floor(sizes.height / 2)];
    this.put([]);
    this.dip();
    this.draw();
  }

  /** Update the ink of the pen. */
  dip() {
    const { depth, largest } = this.brush.sizes, hex = Number.parseInt(this.colour.value.slice(1), 16);
    const bytes = depth === 3 ? [hex >> 16, (hex >> 8) & 255, hex & 255] : [Number(this.ink.value)];
    this.brush.ink = bytes.map((value) => Math.round((value / 255) * largest));
  }

  // ------------------------------------------------------------------------------------------- drawing

  point(event) {
    const at = this.canvas.getBoundingClientRect(), { width, height } = this.brush.sizes;
    return [((event.clientX - at.left) / at.width) * width, ((event.clientY - at.top) / at.height) * height];
  }

  down(event) {
    if (event.button !== 0) return;
    this.canvas.setPointerCapture(event.pointerId);
    this.remember();
    this.stroke = this.point(event);
    this.brush.stroke(this.values, this.stroke, this.stroke);
    this.draw();
  }

  moveTo(event) {
    if (this.stroke === null) return;
    const to = this.point(event);
    this.brush.stroke(this.values, this.stroke, to);
    this.stroke = to;
    this.draw();
  }

  key(event) {
    const [dx, dy] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key] ?? [0, 0];
    const { width, height } = this.brush.sizes;
    if (event.key === " ") {
      this.remember();
      this.brush.dab(this.values, this.cursor[0] + 0.5, this.cursor[1] + 0.5);
    } else if (dx || dy) {
      this.cursor = [(this.cursor[0] + dx + width) % width, (this.cursor[1] + dy + height) % height];
    } else return;
    event.preventDefault();
    event.stopPropagation();
    this.mark.hidden = false;
    this.draw();
  }

  change(to) {
    this.remember();
    this.values = this.values.map(to);
    this.draw();
  }

  maskWhere(where) {
    const { sizes } = this.brush, { width, depth } = sizes;
    this.change((value, i) => {
      const pixel = Math.floor(i / depth);
      return where(Math.floor(pixel / width), pixel % width, sizes) ? MASKED : value;
    });
  }

  /** Mask all pixels without ink. */
  maskBlank() {
    const { depth } = this.brush.sizes, { values } = this;
    const blank = (pixel) => values.subarray(pixel * depth, (pixel + 1) * depth).every((value) => value <= 0);
    this.change((value, i) => (blank(Math.floor(i / depth)) ? MASKED : value));
  }

  fillPaper() {
    this.change((value) => (value === MASKED ? 0 : value));
  }

  clearPaper() {
    this.change(() => 0);
  }

  draw() {
    const { sizes } = this.brush, { width, height, depth } = sizes;
    paint(this.canvas, sizes, this.values);
    const left = this.values.filter((value) => value === MASKED).length / depth;
    this.told.textContent = `${left} of ${width * height} pixels masked`;
    this.mark.style.setProperty("left", `${(100 * this.cursor[0]) / width}%`);
    this.mark.style.setProperty("top", `${(100 * this.cursor[1]) / height}%`);
    this.mark.style.setProperty("width", `${100 / width}%`);
    this.mark.style.setProperty("height", `${100 / height}%`);
  }

  // ------------------------------------------------------------------------------------------- running

  async run() {
    if (!this.values.includes(MASKED)) return fail(new Refused("nothing is masked: choose what the model should fill"));
    const base = Array.from(this.values, (value) => ({ id: value === MASKED ? null : value, text: null }));
    await this.fill(base);
  }

  goOn(card) {
    this.remember();
    this.values = Int32Array.from(finalOf(card), (place) => place.id ?? MASKED);
    this.draw();
    this.canvas.scrollIntoView({ block: "nearest" });
    say("Editing this variant");
  }

  cardView() {
    const canvas = make("canvas", { class: "picture", role: "img", "aria-label": "Image" });
    const draw = ({ trajectory, sample }, frame) => {
      const places = trajectory.state(sample, frame), sizes = sizesOf(trajectory.model);
      const tint = (pixel) => {
        const place = places[pixel * sizes.depth];
        return place.since > 0 && place.id !== null ? ofStep(trajectory.share(place.since)) : null;
      };
      paint(canvas, sizes, places.map((place) => place.id ?? MASKED), this.byStep.checked ? tint : undefined);
    };
    return { root: canvas, draw };
  }

  // ---------------------------------------------------------------------------------------------- undo

  state() {
    return { values: this.values.slice() };
  }

  restore({ values }) {
    this.values = values;
    this.draw();
  }
}
