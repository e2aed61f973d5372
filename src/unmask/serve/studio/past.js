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
