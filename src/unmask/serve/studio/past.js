/** The undo history and its button. */

import { button } from "./dom.js";
import { icon } from "./icons.js";

const MOST = 100;

export class Past {
  constructor(undo) {
    this.states = [];
    this.button = button(icon("undo"), undo, { class: "icon", disabled: true, "aria-label": "Undo", title: "Undo (Ctrl Z)" });
  }

  keep(state) {
    this.states.push(state);
    if (this.states.length > MOST) this.states.shift();
    this.button.disabled = false;
    return state;
  }

  /** Remove a state as if what followed it had never been: later ones show what it showed. Returns whether it was there. */
  drop(state) {
    const { cards, trajectory } = state, at = this.states.indexOf(state);
    if (at < 0) return false;
    this.states.slice(at).forEach((later) => Object.assign(later, { cards, trajectory }));
    this.states.splice(at, 1);
    this.button.disabled = this.states.length === 0;
    return true;
  }

  /** Remove and return the last state; undefined if there is none. */
  take() {
    const state = this.states.pop();
    this.button.disabled = this.states.length === 0;
    return state;
  }

  forget() {
    this.states = [];
    this.button.disabled = true;
  }
}
