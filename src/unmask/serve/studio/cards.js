/** Variants side by side, which can be pinned, edited as the new input, and deleted. */

import { button, make } from "./dom.js";
import { icon } from "./icons.js";

let cardsMade = 0;

/** @typedef {{key: number, name: string, trajectory: object, sample: number, pinned: boolean, marks: Set<number>}} Card */

/** The cards of a new trajectory. */
export function cardsOf(trajectory) {
  return Array.from({ length: trajectory.samples }, (_, sample) => ({
    key: (cardsMade += 1), trajectory, sample, pinned: false, marks: new Set(),
  }));
}

/** The positions of a card at the end of its trajectory. */
export const finalOf = (card) => card.trajectory.state(card.sample, card.trajectory.last);

/** The token ids for a request: null where masked. */
export const idsOf = (places) => places.map((place) => place.id);

export class Shelf {
  /**
   * @param {object} how
   * @param {(card: () => Card) => {root: Element, draw: (card: Card, frame: number) => void}} how.view
   * @param {object} how.actions pin, goOn, remove, replay and copy: functions of a card; an action left out has no button
   * @param {import("./player.js").Player} how.player
   */
  constructor(how) {
    this.how = how;
    this.cards = [];
    this.views = new Map();
    this.root = make("div", { class: "shelf" });
  }

  /** Show these cards. */
  use(cards) {
    this.cards = cards;
    for (const [key, view] of this.views) {
      if (!cards.some((card) => card.key === key)) {
        view.root.remove();
        this.views.delete(key);
      }
    }
    const roots = cards.map((card) => this.viewOf(card).root);
    roots.forEach((root, i) => {
      if (this.root.children[i] !== root) this.root.insertBefore(root, this.root.children[i] ?? null);
    });
    this.draw();
  }

  card(key) {
    return this.cards.find((card) => card.key === key);
  }

  viewOf(card) {
    if (!this.views.has(card.key)) this.views.set(card.key, this.build(card.key));
    return this.views.get(card.key);
  }

  build(key) {
    const { actions } = this.how, now = () => this.card(key);
    const body = this.how.view(now);
    const name = make("h3", {}), detail = make("span", { class: "detail" });
    const pin = button("Pin", () => actions.pin(now()), { "aria-pressed": "false", title: "Keep when you run again" });
    const replay = button("Replay", () => actions.replay(now()), { title: "Step through this variant" });
    const buttons = [
      pin, replay,
      button("Edit", () => actions.goOn(now()), { title: "Use this variant as the new input" }),
      actions.copy ? button("Copy", (event) => actions.copy(now(), event.currentTarget)) : null,
      button(icon("close"), () => actions.remove(now()), { class: "icon", "aria-label": "Delete", title: "Delete" }),
    ];
    const root = make(
      "article", { class: "card", "aria-label": "Variant" },
      make("header", {}, name, detail), body.root, make("footer", {}, ...buttons),
    );
    return { root, body, name, detail, pin, replay };
  }

  /** Draw all cards: at the player's frame if they belong to its trajectory, otherwise at their end. */
  draw() {
    const { player } = this.how;
    this.cards.forEach((card, i) => {
      const view = this.viewOf(card), active = card.trajectory === player.trajectory;
      view.name.textContent = `Variant ${i + 1}`;
      view.detail.textContent = detailOf(card);
      view.root.classList.toggle("active", active);
      view.root.classList.toggle("pinned", card.pinned);
      view.pin.textContent = card.pinned ? "Pinned" : "Pin";
      view.pin.setAttribute("aria-pressed", card.pinned);
      view.replay.hidden = active;
      view.body.draw(card, active ? player.frame : card.trajectory.last, active);
    });
  }
}

function detailOf({ trajectory, sample }) {
  if (trajectory.seed === null) return "";
  return `${trajectory.model.id} · seed ${trajectory.seed}${trajectory.samples > 1 ? ` · ${sample + 1}` : ""}`;
}
