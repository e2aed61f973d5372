/** What writing and drawing share: a model and its settings, runs, their results, and undo. */

import { Shelf, cardsOf, idsOf } from "./cards.js";
import { gradient, ofStep } from "./colour.js";
import { field, make } from "./dom.js";
import { ofKind, offer, say } from "./page.js";
import { Past } from "./past.js";
import { Player } from "./player.js";
import { Runner } from "./runner.js";
import { Settings } from "./settings.js";
import { Trajectory } from "./trajectory.js";

/**
 * A tab provides useModel(), run(), state() and restore() of its input, cardView() and goOn() of a result.
 */
export class Filling {
  /** @param {"text"|"picture"} kind of its models @param {string} verb the name of the button that runs */
  constructor(kind, verb) {
    this.models = ofKind(kind);
    this.model = make("select", { onchange: () => this.useModel() });
    this.about = make("span", { class: "help" });
    this.settings = new Settings(() => {});
    this.runner = new Runner(() => this.run(), verb);
    this.player = new Player(() => this.shelf.draw());
    this.shelf = new Shelf({ player: this.player, view: (card) => this.cardView(card), actions: this.actions() });
    this.past = new Past(() => this.undo());
    offer(this.model, this.models);
  }

  /** The whole tab: the input, the results with their legend, and the side with model and sampler. */
  layout(input, ...legend) {
    this.results = make("section", { class: "results", hidden: true, "aria-label": "Results" }, this.player.root, make("p", { class: "legend" }, ...legend), this.shelf.root);
    return make(
      "div", { class: "columns" },
      make("div", { class: "work" }, input, make("div", { class: "go" }, this.runner.root, this.past.button), this.results),
      make(
        "details", { class: "side", open: matchMedia("(min-width: 60rem)").matches },
        make("summary", {}, "Model and sampler"), field("Model", this.model, this.about), this.settings.root,
      ),
    );
  }

  get served() {
    return this.models.find((model) => model.id === this.model.value);
  }

  // ------------------------------------------------------------------------------------------- running

  /** Fill the gaps of a row, in as many variants as asked for; pinned ones of earlier runs stay. */
  async fill(base) {
    const body = { ...this.settings.body(), tokens: idsOf(base), n: this.settings.n };
    const trajectory = new Trajectory(this.served, base, body.n, body);
    const before = this.remember();
    this.put([...this.shelf.cards.filter((card) => card.pinned), ...cardsOf(trajectory)]);
    await this.play(trajectory, body, before);
  }

  /** `before`: the state to return to if nothing comes of it. */
  async play(trajectory, body, before) {
    const shown = () => this.player.trajectory === trajectory;
    this.player.load(trajectory, true);
    const done = await this.runner.run(trajectory, body, () => shown() && this.player.grown());
    if (done) await this.completed(trajectory);
    if (!trajectory.last && shown()) this.takeBack(before);
    else if (!done && shown()) this.player.finish();
  }

  /** What is left to do with a trajectory that ran to its end. */
  async completed() {}

  cancel() {
    this.runner.cancel();
  }

  move(by) {
    this.player.move(by);
  }

  // ----------------------------------------------------------------------------------------------- cards

  actions() {
    return {
      pin: (card) => this.replace(card, { pinned: !card.pinned }),
      remove: (card) => this.remove(card),
      replay: (card) => this.player.load(card.trajectory, false),
      goOn: (card) => this.goOn(card),
    };
  }

  put(cards) {
    this.results.hidden = cards.length === 0;
    this.shelf.use(cards);
  }

  replace(card, changes) {
    this.put(this.shelf.cards.map((other) => (other.key === card.key ? { ...other, ...changes } : other)));
  }

  remove(card) {
    this.remember();
    this.put(this.shelf.cards.filter((other) => other.key !== card.key));
    say("Variant deleted; Undo restores it");
  }

  // ------------------------------------------------------------------------------------------------ undo

  remember() {
    return this.past.keep({ ...this.state(), cards: this.shelf.cards, trajectory: this.player.trajectory });
  }

  /** Undo a run that produced nothing: remove its cards and restore the previous ones. What was done since stays. */
  takeBack(before) {
    if (this.past.drop(before)) this.show(before);
  }

  undo() {
    const before = this.past.take();
    if (before === undefined) return;
    this.runner.cancel();
    this.restore(before);
    this.show(before);
    say("Undone");
  }

  show({ cards, trajectory }) {
    this.player.load(trajectory, false);
    this.put(cards);
  }
}

/** The colours of the steps, for a legend. */
export function stepScale() {
  const scale = make("span", { class: "scale", "aria-hidden": "true" });
  scale.style.setProperty("background", gradient(ofStep));
  return scale;
}
