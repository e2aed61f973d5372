/** A trajectory as it comes: what was given, and what changed at every step, for each of its samples. */

/** A place is {id, text}; id null where it is masked. */
export const masked = (place) => place.id === null;

export class Trajectory {
  /**
   * @param {object} model as the server describes it
   * @param {{id: ?number, text: ?string}[]} base what was given
   * @param {number} samples
   * @param {object} body what was asked
   */
  constructor(model, base, samples, body) {
    Object.assign(this, { model, base, samples, body });
    this.steps = [];
    this.seed = null;
    this.calls = 0;
    this.ended = false;
    this.expected = expectedSteps(model, base, body);
  }

  /** Take in one event of the server. */
  add(name, document) {
    if (name === "start" || name === "end") this.seed = document.seed;
    if (name === "step") this.steps.push(document);
    if (name === "end") {
      this.calls = document.calls;
      this.ended = true;
    }
  }

  /** The number of the last frame; frame 0 is what was given. */
  get last() {
    return this.steps.length;
  }

  /** How far along a frame is, 0…1. */
  share(frame) {
    if (frame === 0) return 0;
    const steps = this.ended ? this.steps.at(-1).step : Math.max(this.expected, this.steps.at(-1).step);
    return steps <= 1 ? 1 : (this.steps[frame - 1].step - 1) / (steps - 1);
  }

  /** Each place at a frame: {id, text, since}, since being the frame at which it came to be so. */
  state(sample, frame) {
    const places = this.base.map((place) => ({ ...place, since: 0 }));
    this.steps.slice(0, frame).forEach((step, i) => {
      for (const change of step.changes) {
        if (change.sample !== sample) continue;
        places[change.place] = { id: change.id, text: change.text, since: i + 1 };
      }
    });
    return places;
  }

  /** A line about a frame. */
  describe(frame) {
    if (frame === 0) return "start";
    const { step, t } = this.steps[frame - 1];
    return `step ${step}${this.ended ? ` of ${this.steps.at(-1).step}` : ""} · t = ${t.toFixed(3)}`;
  }
}

function expectedSteps(model, base, body) {
  const gaps = base.filter(masked).length;
  const walks = model.samplers.find((one) => one.name === (body.sampler ?? model.sampler))?.grid;
  return walks ? body.steps ?? Math.min(64, gaps) : gaps;
}
