/** The tab for writing, masking and filling text. */

import { post } from "./api.js";
import { Board } from "./board.js";
import { bars, bubble, hideBubble } from "./bubble.js";
import { Shelf, cardsOf, finalOf, idsOf } from "./cards.js";
import { css, gradient, ofStep } from "./colour.js";
import { button, copy, count, field, find, make } from "./dom.js";
import { describe, fail, ofKind, offer, say } from "./page.js";
import { Past } from "./past.js";
import { Player } from "./player.js";
import { Runner } from "./runner.js";
import { Settings } from "./settings.js";
import { TokenView } from "./tokens.js";
import { Trajectory } from "./trajectory.js";


export class Write {
  constructor() {
    this.models = ofKind("text");
    this.model = make("select", { onchange: () => this.useModel() });
    this.about = make("span", { class: "help" });
    this.settings = new Settings(() => {});
    this.runner = new Runner(() => this.run(), "Unmask");
    this.player = new Player(() => this.shelf.draw());
    this.board = new Board({ remember: () => this.remember(), model: () => this.served, look: (...where) => this.look(...where) });
    this.shelf = new Shelf({ player: this.player, view: (card) => this.cardView(card), actions: this.actions() });
    this.past = new Past(() => this.undo());
    this.root = this.layout();
    offer(this.model, this.models);
    this.useModel();
    this.board.begin();
  }

  layout() {
    const scale = make("span", { class: "scale", "aria-hidden": "true" });
    scale.style.setProperty("background", gradient(ofStep));
    this.results = make(
      "section", { class: "results", hidden: true, "aria-label": "Results" },
      this.player.root,
      make(
        "p", { class: "legend" },
        make("span", { class: "swatch masked", "aria-hidden": "true" }), "masked", scale, "revealed, first to last",
        make("span", { class: "hint" }, "Hover over or tap a token to see alternatives; click tokens to mask and regenerate them."),
      ),
      this.shelf.root,
    );
    return make(
      "div", { class: "columns" },
      make("div", { class: "work" }, this.board.root, make("div", { class: "go" }, this.runner.root, this.past.button), this.results),
      make(
        "details", { class: "side", open: matchMedia("(min-width: 60rem)").matches },
        make("summary", {}, "Model and sampler"), field("Model", this.model, this.about), this.settings.root,
      ),
    );
  }

  get served() {
    return this.models.find((model) => model.id === this.model.value);
  }

  useModel() {
    this.runner.cancel();
    this.describeModel();
    this.board.useModel();
  }

  describeModel() {
    this.about.textContent = describe(this.served);
    this.settings.use(this.served);
  }

  // ------------------------------------------------------------------------------------------- running

  /** Fill the gaps of the board, or regenerate the marked tokens of the focused card. */
  async run() {
    const focused = this.focusedCard();
    if (focused?.marks.size) return this.regenerate(focused);
    try {
      await this.board.settled();
      await this.fill();
    } catch (error) {
      fail(error);
    }
  }

  async fill() {
    const base = this.board.masked();
    const body = { ...this.settings.body(), tokens: idsOf(base), n: this.settings.n };
    const trajectory = new Trajectory(this.served, base, body.n, body);
    const before = this.remember();
    this.put([...this.shelf.cards.filter((card) => card.pinned), ...cardsOf(trajectory)]);
    await this.play(trajectory, body, before);
  }

  /** Fill only the marked tokens of a card; everything else stays. */
  async regenerate(card) {
    const base = finalOf(card).map((place, i) => (card.marks.has(i) ? { id: null, text: null } : { id: place.id, text: place.text }));
    const body = { ...this.settings.body(), model: card.trajectory.model.id, tokens: idsOf(base), n: 1 };
    const trajectory = new Trajectory(card.trajectory.model, base, 1, body);
    this.replace(card, { marks: new Set() });
    const before = this.remember(); // without the marks, so that undoing shows the tokens again
    this.replace(card, { trajectory, sample: 0 });
    await this.play(trajectory, body, before);
  }

  /** `before`: the state to return to if nothing comes of it. */
  async play(trajectory, body, before) {
    this.player.load(trajectory, true);
    const done = await this.runner.run(trajectory, body, () => this.player.trajectory === trajectory && this.player.grown());
    if (done) await this.mend(trajectory);
    if (!trajectory.last && this.player.trajectory === trajectory) this.takeBack(before);
    else if (!done && this.player.trajectory === trajectory) this.player.finish();
  }

  /** A character of several tokens is known only once all of its tokens are. */
  async mend(trajectory) {
    for (let sample = 0; sample < trajectory.samples; sample += 1) {
      const places = trajectory.state(sample, trajectory.last);
      if (!places.some((place) => place.text?.includes("\ufffd"))) continue;
      const { pieces } = await post("/api/text", { model: trajectory.model.id, tokens: idsOf(places) });
      for (const step of trajectory.steps) {
        for (const change of step.changes) {
          if (change.sample === sample && places[change.place].id === change.id) change.text = pieces[change.place];
        }
      }
    }
    this.shelf.draw();
  }

  cancel() {
    this.runner.cancel();
  }

  // ---------------------------------------------------------------------------------------------- cards

  actions() {
    return {
      pin: (card) => this.replace(card, { pinned: !card.pinned }),
      remove: (card) => this.remove(card),
      replay: (card) => this.player.load(card.trajectory, false),
      goOn: (card) => this.goOn(card),
      copy: (card, from) => this.copy(card, from),
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

  async goOn(card) {
    try {
      const places = finalOf(card);
      const { text } = await post("/api/text", { model: card.trajectory.model.id, tokens: idsOf(places) });
      this.remember();
      this.model.value = card.trajectory.model.id;
      this.describeModel();
      this.board.take(places, text);
      this.board.root.scrollIntoView({ block: "nearest" });
      say("Editing this variant");
    } catch (error) {
      fail(error);
    }
  }

  async copy(card, from) {
    try {
      const tokens = idsOf(finalOf(card));
      const { text } = await post("/api/text", { model: card.trajectory.model.id, tokens });
      from.textContent = (await copy(text)) ? "Copied" : "Copy failed";
      setTimeout(() => (from.textContent = "Copy"), 1500);
    } catch (error) {
      fail(error);
    }
  }

  focusedCard() {
    const root = document.activeElement?.closest(".card");
    return this.shelf.cards.find((card) => this.shelf.viewOf(card).root === root);
  }

  /** The text of a card, with tokens that can be marked. */
  cardView(now) {
    const again = button("", () => this.regenerate(now()), { class: "primary small", hidden: true });
    const view = new TokenView({
      label: "Tokens of this variant: select those to regenerate",
      byWord: () => this.board.byWord,
      choose: (places, on) => this.mark(now(), places, on),
      look: (place, element) => this.lookAt(now(), place, element),
      leave: hideBubble,
    });
    const draw = (card, frame, active) => {
      view.root.classList.toggle("letters", !card.trajectory.model.subwords);
      view.draw(cellsOf(card, frame, active));
      again.hidden = card.marks.size === 0;
      again.textContent = `Regenerate ${count(card.marks.size, "token")}`;
    };
    return { root: make("div", { class: "text" }, view.root, again), draw };
  }

  mark(card, places, on) {
    this.player.finish();
    const marks = new Set(card.marks);
    for (const place of places) on ? marks.add(place) : marks.delete(place);
    this.replace(card, { marks });
  }

  lookAt(card, place, element) {
    const { trajectory, sample } = card;
    const frame = trajectory === this.player.trajectory ? this.player.frame : trajectory.last;
    const { since, id } = trajectory.state(sample, frame)[place];
    const before = since > 0 && id !== null ? since - 1 : frame;
    const title = id === null ? "Predictions for this position" : since > 0 ? `Chosen at ${trajectory.describe(since)}` : "Given; predictions without it";
    this.look(trajectory.model, idsOf(trajectory.state(sample, before)), place, element, { title, chosen: id, label: trajectory.body.label });
  }

  /** Show the alternatives at a position in a bubble. */
  look(model, tokens, place, element, { title, chosen, label = this.settings.class ?? undefined }) {
    bubble(element, async () => {
      try {
        const body = { model: model.id, tokens, place, count: 6, token: chosen ?? undefined, label };
        return bars(title, await post("/api/alternatives", body), chosen);
      } catch (error) {
        fail(error);
        return null;
      }
    });
  }

  // ----------------------------------------------------------------------------------------------- undo

  remember() {
    return this.past.keep({ board: this.board.state(), cards: this.shelf.cards, trajectory: this.player.trajectory, model: this.model.value });
  }

  /** Undo a run that produced nothing: remove its cards and restore the previous ones. */
  takeBack(before) {
    this.past.drop(before); // what was done since stays, and can be undone
    this.player.load(before.trajectory, false);
    this.put(before.cards);
  }

  undo() {
    const before = this.past.take();
    if (before === undefined) return;
    this.runner.cancel();
    this.model.value = before.model;
    this.describeModel();
    this.board.restore(before.board);
    this.player.load(before.trajectory, false);
    this.put(before.cards);
    say("Undone");
  }

  move(by) {
    if (!find("write").hidden) this.player.move(by);
  }
}

/** The cells of a card at a frame. */
function cellsOf({ trajectory, sample, marks }, frame, active) {
  const places = trajectory.state(sample, frame);
  const ends = trajectory.ended ? trajectory.state(sample, trajectory.last) : places;
  return places.map((place, i) => {
    const marked = marks.has(i);
    if (place.id === null) return { text: ends[i].text, kind: "masked", marked, about: "masked" };
    if (place.since === 0) return { text: place.text, kind: "given", marked, about: "given" };
    const fresh = active && place.since === frame && !(trajectory.ended && frame === trajectory.last);
    const about = `revealed at step ${trajectory.steps[place.since - 1].step}`;
    return { text: place.text, kind: "new", marked, fresh, colour: css(ofStep(trajectory.share(place.since))), about };
  });
}
