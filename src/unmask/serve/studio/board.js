/** The input: the text above, its tokens to mask below. */

import { Refused, post } from "./api.js";
import { button, count, field, later, make } from "./dom.js";
import { fail, say } from "./page.js";
import { hideBubble } from "./bubble.js";
import { TokenView } from "./tokens.js";
import { everyNth, placesOf, randomShare, span, words } from "./words.js";

const SAMPLE = "the old house at the end of the street was quiet until the children came home from school";
const GAPS = /_{3,}|\[MASK:\d+\]/g;

/** @typedef {{id: ?number, text: ?string, masked: boolean, appended?: boolean}} Place id null: a gap */

export class Board {
  /** @param {{remember: () => void, model: () => object, look: Function}} how */
  constructor(how) {
    this.how = how;
    /** @type {Place[]} */
    this.places = [];
    this.reading = Promise.resolve();
    this.known = { text: "", model: null }; // the text and model of the current tokens
    this.asked = 0;
    this.soon = later(200, () => this.read());
    this.area = make("textarea", {
      rows: 3, spellcheck: "false", autocomplete: "off", placeholder: "Type or paste text; ____ marks a gap.",
      oninput: () => this.typed(),
    });
    this.complaint = make("p", { class: "complaint", role: "alert", hidden: true });
    this.view = new TokenView({
      label: "Tokens: select those to mask",
      byWord: () => this.byWord,
      choose: (places, on) => this.choose(places, on),
      look: (place, element) => this.look(place, element),
      leave: hideBubble,
    });
    this.empty = make("p", { class: "empty" }, "No tokens yet: type some text or append tokens.");
    this.words = make("input", { type: "checkbox", checked: true });
    this.told = make("span", { class: "told" });
    this.root = make(
      "section", { class: "board", "aria-label": "Input" },
      field("Text", this.area), this.complaint,
      make("div", { class: "over" }, make("span", { class: "name" }, "Click or drag to mask"), make("label", { class: "check" }, this.words, "whole words"), this.told),
      make("div", { class: "sheet" }, this.view.root, this.empty),
      this.tools(),
    );
  }

  tools() {
    const whole = (value, most, name) => make("input", { type: "number", min: 1, max: most, value, "aria-label": name });
    const k = whole(4, 99, "Interval"), share = whole(30, 100, "Percentage"), more = whole(24, 2048, "Number of tokens");
    return make(
      "div", { class: "tools", role: "group", "aria-label": "Masking" },
      make("span", { class: "joined" }, button("Every", () => this.mask((units) => everyNth(units, Number(k.value)))), k, make("span", { class: "unit" }, "th")),
      make("span", { class: "joined" }, button("Random", () => this.mask((units) => randomShare(units, Number(share.value) / 100))), share, make("span", { class: "unit" }, "%")),
      make("span", { class: "joined" }, button("Append", () => this.append(Number(more.value))), more, make("span", { class: "unit" }, "tokens")),
      button("Mask all", () => this.choose(span(0, this.places.length), true)),
      button("Clear masks", () => this.clear()),
    );
  }

  get byWord() {
    return this.words.checked;
  }

  // --------------------------------------------------------------------------------------------- text

  /** Start with a sentence if the model can read it, otherwise with gaps only. */
  async begin() {
    const model = this.how.model();
    const fits = model.alphabet === null || outside(SAMPLE, model.alphabet) === "";
    if (model.fixed_shape || !fits) return this.append(Math.min(32, model.shape[0]), false);
    this.area.value = model.alphabet === null ? `${SAMPLE[0].toUpperCase()}${SAMPLE.slice(1)}.` : SAMPLE;
    this.read();
    await this.reading;
    if (this.places.length) this.mask((units) => everyNth(units, 4), false);
  }

  useModel() {
    this.read();
  }

  typed() {
    this.soon();
  }

  /** Tokenize the text unless the tokens are up to date; tokens that stay keep their masks. */
  read() {
    this.soon.cancel();
    const text = this.area.value, model = this.how.model();
    if (text === this.known.text && model === this.known.model) return;
    const mine = (this.asked += 1);
    this.known = { text, model };
    this.reading = this.tokens(text, model).then((tokens) => {
      if (tokens === null || mine !== this.asked) return;
      const appended = this.places.filter((place) => place.appended);
      this.places = [...kept(this.places, tokens), ...appended];
      this.draw();
    });
  }

  async tokens(text, model) {
    const strange = model.alphabet === null ? "" : outside(text.replace(GAPS, ""), model.alphabet);
    if (strange) {
      this.complain(`${model.id} does not support ${strange}`, button("Fix text", () => this.fit(model.alphabet)));
      return null;
    }
    try {
      const found = text ? await post("/api/tokens", { model: model.id, text, gaps: true }) : [];
      this.complain("");
      return found;
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      this.complain(error.message);
      return null;
    }
  }

  complain(text, ...more) {
    this.complaint.hidden = text === "";
    this.complaint.replaceChildren(text, ...more);
  }

  /** Replace unsupported characters: change their case if that helps, otherwise use a space. */
  fit(alphabet) {
    this.how.remember();
    const known = (c) => alphabet.includes(c);
    const closest = (c) => [c, c.toLowerCase(), c.toUpperCase(), " "].find((one) => [...one].every(known)) ?? "";
    const parts = this.area.value.split(/(_{3,}|\[MASK:\d+\])/);
    const fitted = parts.map((part, i) => (i % 2 ? part : [...part].map(closest).join("")));
    this.area.value = fitted.join("").replace(/ {2,}/g, " ");
    this.read();
    this.area.focus();
  }

  /** Wait until the tokens are up to date; fails if the text cannot be read. */
  async settled() {
    this.read();
    await this.reading;
    if (!this.complaint.hidden) throw new Refused(this.complaint.firstChild.textContent);
    if (!this.places.some((place) => place.masked)) throw new Refused("nothing is masked: click words, type ____, or append tokens");
  }

  /** Take over tokens and their text as the input. */
  take(places, text) {
    this.soon.cancel();
    this.asked += 1;
    const gaps = places.some((place) => place.id === null);
    this.area.value = gaps ? places.map((place) => (place.id === null ? "[MASK:1]" : place.text)).join("") : text;
    this.known = { text: this.area.value, model: this.how.model() };
    this.places = places.map(({ id, text: piece }) => ({ id, text: piece, masked: id === null }));
    this.complain("");
    this.draw();
  }

  // -------------------------------------------------------------------------------------------- masks

  /** The input with gaps at masked positions. */
  masked() {
    return this.places.map(({ id, text, masked }) => (masked ? { id: null, text: null } : { id, text }));
  }

  choose(places, on) {
    const chosen = new Set(places);
    this.how.remember();
    this.places = this.places
      .map((place, i) => (chosen.has(i) && place.id !== null ? { ...place, masked: on } : place))
      .filter((place, i) => on || !chosen.has(i) || !place.appended);
    this.draw();
  }

  /** Mask the words or tokens that `take` selects. */
  mask(take, remember = true) {
    if (remember) this.how.remember();
    const own = this.places.filter((place) => !place.appended);
    const units = this.byWord ? words(own) : own.map((_, i) => [i, i + 1]);
    const chosen = new Set(placesOf(take(units)));
    this.places = this.places.map((place, i) => (place.id === null ? place : { ...place, masked: chosen.has(i) }));
    this.draw();
  }

  append(number, remember = true) {
    const left = this.how.model().limits.tokens - this.places.length;
    if (!(number >= 1)) return fail(new Refused("append at least one token"));
    if (number > left) return fail(new Refused(`too many tokens: got ${number}, allowed: at most ${left} more; append fewer`));
    if (remember) this.how.remember();
    this.places = [...this.places, ...Array.from({ length: Math.floor(number) }, () => ({ id: null, text: null, masked: true, appended: true }))];
    this.draw();
  }

  clear() {
    this.how.remember();
    this.places = this.places.filter((place) => !place.appended).map((place) => ({ ...place, masked: place.id === null }));
    this.draw();
  }

  look(place, element) {
    const tokens = this.masked().map((one) => one.id), { id, masked } = this.places[place];
    const title = masked ? "Predictions for this position" : "Given; predictions without it";
    this.how.look(this.how.model(), tokens, place, element, { title, chosen: masked ? null : id });
  }

  draw() {
    this.view.root.classList.toggle("letters", !this.how.model().subwords);
    this.view.draw(this.places.map(({ text, masked }) => ({ text, kind: masked ? "masked" : "given", marked: masked })));
    const masks = this.places.filter((place) => place.masked).length;
    this.empty.hidden = this.places.length > 0;
    this.told.textContent = this.places.length ? `${masks} of ${count(this.places.length, "token")} masked` : "";
  }

  // --------------------------------------------------------------------------------------------- undo

  state() {
    return { text: this.area.value, places: this.places };
  }

  restore({ text, places }) {
    this.soon.cancel();
    this.asked += 1;
    this.area.value = text;
    this.known = { text, model: this.how.model() };
    this.places = places;
    this.complain("");
    this.draw();
    say("Restored");
  }
}

/** The first characters of a text that are not in the alphabet, quoted; "" if there are none. */
function outside(text, alphabet) {
  const strange = [...new Set(text)].filter((character) => !alphabet.includes(character));
  const shown = strange.slice(0, 5).map((character) => JSON.stringify(character)).join(" ");
  return strange.length > 5 ? `${shown} and ${strange.length - 5} more` : shown;
}

/** New tokens with the masks of the old ones, wherever the beginning and end of the text are unchanged. */
function kept(before, tokens) {
  const old = characters(before.filter((place) => !place.appended)), now = characters(tokens);
  const least = Math.min(old.length, now.length), same = (a, b) => a.character === b.character;
  let start = 0, end = 0;
  while (start < least && same(old[start], now[start])) start += 1;
  while (end < least - start && same(old.at(-1 - end), now.at(-1 - end))) end += 1;
  const was = (i) => (i < start ? old[i] : i >= now.length - end ? old[i - now.length + old.length] : null);
  const masked = new Set();
  now.forEach(({ character, place }, i) => {
    const counts = character.trim() !== "" || tokens[place].text.trim() === "";
    if (counts && was(i)?.masked) masked.add(place);
  });
  return tokens.map((token, i) => ({ ...token, masked: token.id === null || masked.has(i) }));
}

/** Each character with the position of its token and whether that is masked; a gap counts as one character. */
function characters(places) {
  return places.flatMap(({ text, masked }, place) =>
    text === null ? [{ character: "\0", place, masked: false }] : [...text].map((character) => ({ character, place, masked })));
}
