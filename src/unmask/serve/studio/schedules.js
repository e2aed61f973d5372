/** Masking schedules and grids, as in unmask.core: α_t is the chance that a token is still visible at time t. */

const LEAST = 1e-5, MOST = 20, RATIO = Math.log(MOST / LEAST); // for the geometric schedule, as in the paper
const HALF = Math.PI / 2;
const beta = (t) => LEAST * Math.exp(t * RATIO);

/** hidden(t) = 1 − α_t and weight(t) = −α'_t / (1 − α_t); w is the polynomial's exponent. */
export const SCHEDULES = {
  linear: { hidden: (t) => t, weight: (t) => 1 / t, formula: "α = 1 − t" },
  cosine: { hidden: (t) => Math.sin(HALF * t), weight: (t) => HALF / Math.tan(HALF * t), formula: "α = 1 − cos(π/2·(1 − t))" },
  geometric: {
    hidden: (t) => -Math.expm1(-beta(t)),
    weight: (t) => (beta(t) * RATIO) / Math.expm1(beta(t)),
    formula: "α = exp(−10⁻⁵·(2·10⁶)ᵗ)",
  },
  polynomial: { hidden: (t, w = 2) => t ** w, weight: (t, w = 2) => w / t, formula: "α = 1 − tʷ" },
};

/** α_t. */
export const alpha = (name, t, w) => 1 - SCHEDULES[name].hidden(t, w);

/** Grids of times from 1 to 0 with a given number of steps. */
export const GRIDS = {
  uniform: (steps) => falling(steps),
  cosine: (steps) => falling(steps).map((share) => Math.sin(HALF * share)),
};

const falling = (steps) => Array.from({ length: steps + 1 }, (_, i) => (steps - i) / steps);

/** How many of `tokens` a sampler reveals at each step, on average: tokens · (α_s − α_t). */
export function expectedReveals(name, grid, steps, tokens, w) {
  const hidden = GRIDS[grid](steps).map((t) => SCHEDULES[name].hidden(t, w));
  return hidden.slice(1).map((now, i) => tokens * (hidden[i] - now));
}
