/** Runs one request at a time: streams it into a trajectory and can be cancelled. */

import { events, Refused } from "./api.js";
import { button, count, make } from "./dom.js";
import { clearError, fail, say } from "./page.js";

export const KEYS = /Mac|iP(hone|ad)/.test(navigator.platform) ? "⌘ ↵" : "Ctrl ↵";

export class Runner {
  /** @param {() => void} start the button's action */
  constructor(start, name) {
    this.abort = null;
    this.name = name;
    this.go = button("", () => (this.abort ? this.cancel() : start()), { class: "primary" });
    this.bar = make("progress", { max: 1, value: 0, "aria-label": "Progress" });
    this.note = make("span", { class: "note" });
    this.root = make("div", { class: "runner" }, this.go, this.bar, this.note);
    this.label();
  }

  label() {
    const [word, keys] = this.abort ? ["Stop", "Esc"] : [this.name, KEYS];
    this.go.replaceChildren(word, make("kbd", {}, keys));
    this.bar.hidden = this.abort === null;
  }

  /** Cancel the run; tokens that were already revealed stay. */
  cancel() {
    this.abort?.abort();
  }

  /** Run to the end; `grown` is called whenever the trajectory changes. Returns whether the run was completed. */
  async run(trajectory, body, grown) {
    this.cancel();
    clearError();
    const abort = (this.abort = new AbortController());
    this.progress(0, "");
    this.label();
    say("Unmasking");
    try {
      for await (const [name, document] of events("/api/trajectory", body, abort.signal)) {
        trajectory.add(name, document);
        if (name === "step") this.progress(document.step / trajectory.expected, `step ${document.step}`);
        grown();
      }
      if (!trajectory.ended) throw new Refused("the connection to the server was lost before the end");
      this.ended(trajectory);
      return true;
    } catch (error) {
      trajectory.ended = trajectory.last > 0;
      this.note.textContent = abort.signal.aborted ? `stopped after ${count(trajectory.last, "step")}` : "";
      say(abort.signal.aborted ? "Stopped" : "Failed");
      fail(error);
      grown();
      return false;
    } finally {
      if (this.abort === abort) this.abort = null;
      this.label();
    }
  }

  progress(share, text) {
    this.bar.value = Math.min(1, share);
    this.note.textContent = text;
  }

  ended(trajectory) {
    const { seed, calls } = trajectory;
    const shown = Number.isInteger(calls) ? calls : calls.toFixed(1);
    this.note.textContent = `seed ${seed} · ${shown} network calls per variant`;
    say(`Done, seed ${seed}`);
  }
}
