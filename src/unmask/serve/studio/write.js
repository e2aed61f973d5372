/** The tab for writing, masking and filling text. */

import { post } from "./api.js";
import { Board } from "./board.js";
import { bars, bubble, hideBubble } from "./bubble.js";
import { finalOf, idsOf } from "./cards.js";
import { css, ofStep } from "./colour.js";
import { button, copy, count, make } from "./dom.js";
import { Filling, stepScale } from "./filling.js";
import { describe, fail, say } from "./page.js";
import { TokenView } from "./tokens.js";
import { Trajectory } from "./trajectory.js";

const HINT = "Hover over or tap a token to see alternatives; click tokens to mask and regenerate them.";

export class Write extends Filling {
  constructor() {
    super("text", "Unmask");
    this.board = new Board({ remember: () => this.remember(), model: () => this.served, look: (...where) => this.look(...where) });
    const masked = make("span", { class: "swatch masked", "aria-hidden": "true" });
    this.root = this.layout(this.board.root, masked, "masked", stepScale(), "revealed, first to last", make("span", { class: "hint" }, HINT));
    this.useModel();
    this.board.begin();
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
      await this.fill(this.board.masked());
    } catch (error) {
      fail(error);
    }
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

  /** A character of several tokens is known only once all of its tokens are. */
  async completed(trajectory) {
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

  // ---------------------------------------------------------------------------------------------- cards

  actions() {
    return { ...super.actions(), copy: (card, from) => this.copy(card, from) };
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

  state() {
    return { board: this.board.state(), model: this.model.value };
  }

  restore({ board, model }) {
    this.model.value = model;
    this.describeModel();
    this.board.restore(board);
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
