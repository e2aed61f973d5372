/** A trajectory as it arrives: the given tokens and the changes of every step, for each sample. */

/** A place is {id, text}; id is null where it is masked. */
export const masked = (place) => place.id === null;

export class Trajectory {
  /**
   * @param {object} model as the server describes it
   * @param {{id: ?number, text: ?string}[]} base the given tokens
   * @param {number} samples
   * @param {object} body the body of the request
   */
  constructor(model, base, samples, body) {
    Object.assign(this, { model, base, samples, body });
    this.steps = [];
    this.seed = null;
    this.calls = 0;
    this.ended = false;
    this.expected = expectedSteps(model, base, body);
  }

  /** Add one event from the server. */
  add(name, document) {
    if (name === "start" || name === "end") this.seed = document.seed;
    if (name === "step") this.steps.push(document);
    if (name === "end") {
      this.calls = document.calls;
      this.ended = true;
    }
  }

  /** The number of the last frame; frame 0 is the given row. */
  get last() {
    return this.steps.length;
  }

  /** How far along a frame is, 0…1. */
  share(frame) {
    if (frame === 0) return 0;
    const steps = this.ended ? this.steps.at(-1).step : Math.max(this.expected, this.steps.at(-1).step);
    return steps <= 1 ? 1 : (this.steps[frame - 1].step - 1) / (steps - 1);
  }

  /** Each position at a frame: {id, text, since}, where `since` is the frame of its last change. */
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

  /** A one-line description of a frame. */
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
