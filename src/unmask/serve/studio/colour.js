/** Colours for figures: viridis, which keeps its order for colour-blind users and in greyscale. */

const VIRIDIS = [
  [68, 1, 84], [72, 36, 117], [65, 68, 135], [53, 95, 141], [42, 120, 142], [33, 145, 140],
  [34, 168, 132], [68, 191, 112], [122, 209, 81], [189, 223, 38], [253, 231, 37],
];

/** [r, g, b] at a fraction 0…1 of a scale. */
function along(scale, share) {
  const place = Math.min(1, Math.max(0, share)) * (scale.length - 1);
  const low = Math.floor(place), high = Math.min(scale.length - 1, low + 1);
  return scale[low].map((from, i) => Math.round(from + (scale[high][i] - from) * (place - low)));
}

/** The colour of a step, 0 the first and 1 the last. */
export const ofStep = (share) => along(VIRIDIS, 0.06 + 0.9 * share);

/** A colour in CSS notation. */
export const css = ([r, g, b]) => `rgb(${r} ${g} ${b})`;

/** A gradient for a legend. */
export function gradient(colour, stops = 9) {
  const parts = Array.from({ length: stops }, (_, i) => css(colour(i / (stops - 1))));
  return `linear-gradient(to right, ${parts.join(", ")})`;
}
