/** Playback of a trajectory: slider, buttons, arrow keys, and following one that still grows. */

import { button, clamp, make, still } from "./dom.js";
import { icon } from "./icons.js";

const LONGEST = 3000; // maximum milliseconds of a replay, for long trajectories
const SLOWEST = 110; // maximum milliseconds per frame, for short ones

export class Player {
  /** @param {(frame: number) => void} show */
  constructor(show) {
    this.show = show;
    this.trajectory = null;
    this.frame = 0;
    this.timer = 0;
    this.following = false;
    this.slider = make("input", {
      type: "range", min: 0, max: 0, value: 0, "aria-label": "Frame of the trajectory",
      oninput: () => this.seek(Number(this.slider.value)),
    });
    this.playButton = button(icon("play"), () => this.toggle(), { class: "icon", "aria-label": "Play" });
    this.where = make("output", { class: "where" });
    this.root = make(
      "div", { class: "player", role: "group", "aria-label": "Trajectory" },
      button(icon("back"), () => this.move(-1), { class: "icon", "aria-label": "Previous frame" }),
      this.playButton,
      button(icon("forward"), () => this.move(1), { class: "icon", "aria-label": "Next frame" }),
      this.slider,
      this.where,
    );
  }

  /** Show another trajectory; `follow`: from the beginning, as it grows. */
  load(trajectory, follow) {
    this.stop();
    this.trajectory = trajectory;
    this.slider.max = trajectory?.last ?? 0;
    if (trajectory === null) return;
    this.frame = follow ? 0 : trajectory.last;
    this.update();
    if (follow) this.play(true);
  }

  /** The trajectory has grown, or ended. */
  grown() {
    this.slider.max = this.trajectory.last;
    const jump = still() && this.following;
    if (jump) this.frame = this.trajectory.last;
    if (jump || this.trajectory.ended) this.update();
  }

  /** Go to a frame and stop there. */
  seek(frame) {
    this.stop();
    this.frame = clamp(frame, 0, this.trajectory?.last ?? 0);
    this.update();
  }

  /** Go to the end at once. */
  finish() {
    this.seek(this.trajectory?.last ?? 0);
  }

  move(by) {
    this.seek(this.frame + by);
  }

  toggle() {
    if (this.timer) this.stop();
    else this.play(false);
  }

  play(following) {
    if (this.trajectory === null) return;
    this.following = following;
    if (!following && this.frame >= this.trajectory.last) this.frame = 0;
    const length = Math.max(this.trajectory.expected, this.trajectory.last, 1);
    this.timer = setInterval(() => this.tick(), clamp(LONGEST / length, 16, SLOWEST));
    this.label("pause", "Pause");
    this.update();
  }

  tick() {
    if (this.frame < this.trajectory.last) {
      this.frame += 1;
      this.update();
    } else if (!this.following || this.trajectory.ended) {
      this.stop();
    }
  }

  stop() {
    clearInterval(this.timer);
    this.timer = 0;
    this.following = false;
    this.label("play", "Play");
  }

  label(sign, name) {
    this.playButton.replaceChildren(icon(sign));
    this.playButton.setAttribute("aria-label", name);
  }

  update() {
    this.slider.value = this.frame;
    const text = this.trajectory?.describe(this.frame) ?? "";
    this.where.textContent = text;
    this.slider.setAttribute("aria-valuetext", text);
    this.show(this.frame);
  }
}
