/** Which tokens form a word, and ways to select positions. */

const LETTER_END = /[\p{L}\p{N}\p{M}'’]$/u;
const LETTER_START = /^[\p{L}\p{N}\p{M}'’]/u;

/** Whether a word continues from one token to the next; adjacent gaps count as one word. */
function joined(before, after) {
  if (before.text === null || after.text === null) return before.text === after.text;
  if (before.text === "" || after.text === "") return true;
  return LETTER_END.test(before.text) && LETTER_START.test(after.text);
}

/** The positions [start, end) of the word around a position. */
export function wordAt(places, place) {
  let start = place, end = place + 1;
  while (start > 0 && joined(places[start - 1], places[start])) start -= 1;
  while (end < places.length && joined(places[end - 1], places[end])) end += 1;
  return [start, end];
}

/** All words [start, end) except whitespace. */
export function words(places) {
  const found = [];
  for (let start = 0; start < places.length; ) {
    const [, end] = wordAt(places, start);
    const text = places.slice(start, end).map((place) => place.text ?? "_").join("");
    if (text.trim() !== "") found.push([start, end]);
    start = end;
  }
  return found;
}

/** Every k-th of some positions or words. */
export const everyNth = (units, k) => units.filter((_, i) => (i + 1) % k === 0);

/** A random share of the units, at least one. */
export function randomShare(units, share) {
  const wanted = Math.max(1, Math.round(share * units.length));
  const order = units.map((unit) => [Math.random(), unit]).sort((a, b) => a[0] - b[0]);
  return order.slice(0, wanted).map(([, unit]) => unit);
}

/** The positions of units [start, end). */
export const placesOf = (units) => units.flatMap(([start, end]) => span(start, end));

/** start, start + 1, …, end − 1. */
export const span = (start, end) => Array.from({ length: end - start }, (_, i) => start + i);
