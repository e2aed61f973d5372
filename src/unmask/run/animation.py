"""Trajectories as an HTML page that plays them, or as an animated GIF.

Text keeps its layout while it is revealed: a masked position is a box as wide as the token that it becomes.
"""

import colorsys
import html
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from string import Template
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from ..data.vocabulary import BROKEN, Integers, Vocabulary
from ..files import atomic_write
from ..mistakes import extra, require
from .previews import image_grid, is_picture
from .story import Story

Pixels = NDArray[np.uint8]
Colour = tuple[int, int, int]
Cell = tuple[str, Colour | None]
"""Text and its colour; no colour for the box of a masked position."""
Glyph = tuple[str, Colour | None, bool, float, int]
"""A character, its colour, whether it begins a cell, its horizontal offset, and its line."""

MASKED = -1
"""Stands for the mask in the data of a page."""
MASK_COLOURS = ((126, 108, 166), (108, 92, 146))
"""Colours of masked pixels: a chequerboard of muted violet."""
HUES = (220, 380)
"""Hues of the first and the last token revealed: from blue through violet to orange."""
MOST_FRAMES, HELD_MS = 120, 2000
MONOSPACED = ("DejaVuSansMono.ttf", "Menlo.ttc", "consola.ttf")
"""Fonts for the text of a GIF, if the system has one of them; Pillow's own covers little more than English."""
FONT_SIZE, LINE, MARGIN, NARROW, WIDE = 16, 22, 16, 256, 640
PAPER, INK, BOX, RULE, GAP = (255, 255, 255), (30, 30, 34), (222, 219, 232), (200, 200, 206), (64, 64, 70)
MAY_BREAK = "\u200b"


def write_html(path: Path, stories: Sequence[Story], title: str) -> None:
    """Write a self-contained page that plays the stories."""
    _check(stories)
    data = json.dumps([_document(story) for story in stories], separators=(",", ":")).replace("<", "\\u003c")
    page = Template(PAGE).substitute(title=html.escape(title), data=data, cool=HUES[0], warm=HUES[1])
    with atomic_write(path, "w") as file:
        file.write(page)


def write_gif(path: Path, stories: Sequence[Story], milliseconds: int = 80) -> None:
    """Write an animated GIF that loops: images in a grid, texts one below the other.

    A frame lasts `milliseconds`, the last one longer; a long trajectory is thinned out to 120 frames.
    """
    _check(stories)
    what, do = "the frames are too short for a GIF", "show each frame for longer"
    require(milliseconds >= 20, what, got=f"{milliseconds} ms", allowed="20 ms or more", do=do)
    frames = _kept(max(len(story.tokens) for story in stories))
    draw = _grid(stories) if shows_picture(stories[0]) else _column(stories, frames)
    with atomic_write(path) as file:
        _encode(file, draw, frames, milliseconds)


def shows_picture(story: Story) -> bool:
    """Whether a story is of an image."""
    return is_picture(story.vocabulary, story.tokens.shape[1:])


def _check(stories: Sequence[Story]) -> None:
    shapes = {story.tokens.shape[1:] if shows_picture(story) else "text" for story in stories}
    got = ", ".join(sorted(map(str, shapes))) or "none"
    allowed, do = "texts, or images of one shape", "pass samples of one model"
    require(len(shapes) == 1, "these stories cannot be shown together", got=got, allowed=allowed, do=do)


def _kept(count: int) -> list[int]:
    """The frames of a GIF, evenly spaced, the first and the last among them."""
    return [round(frame) for frame in np.linspace(0, count - 1, min(count, MOST_FRAMES)).tolist()]


@dataclass(frozen=True)
class _Film:
    """The frames of a text."""

    story: Story
    values: NDArray[np.int64]
    """[F, N]: which piece each position shows, or MASKED."""
    pieces: list[str]
    ghosts: list[int]
    """[N]: the piece whose room each position takes while it is masked."""
    since: NDArray[np.int64]
    """[F, N]: the frame at which each position came to show what it shows."""

    def cells(self, frame: int) -> Iterator[Cell]:
        """What to draw, position by position."""
        last, columns = len(self.values) - 1, self.story.tokens.shape[-1]
        now, since = self.values[min(frame, last)].tolist(), self.since[min(frame, last)].tolist()
        rows = zip(now, self.ghosts, since, self.story.given.ravel().tolist(), strict=True)
        for place, (value, ghost, came, given) in enumerate(rows, 1):
            text = self.pieces[ghost if value == MASKED else value] + "\n" * (place % columns == 0)
            yield text, None if value == MASKED else INK if given else _colour(came / max(1, last))


def _film(story: Story) -> _Film:
    tokens = story.tokens.reshape(len(story.tokens), -1)
    table: defaultdict[str, int] = defaultdict()
    table.default_factory = table.__len__
    ids, where = np.unique(tokens, return_inverse=True)
    known = [MASKED if token == story.mask_id else table[_piece(story.vocabulary, token)] for token in ids.tolist()]
    values = np.array(known, dtype=np.int64)[where].reshape(tokens.shape)
    _join_broken(story, values, table)
    pieces = list(table)
    final = ["" if value == MASKED else pieces[value].replace("\n", " \n") for value in values[-1].tolist()]
    ghosts = [table[text or MAY_BREAK + "░"] for text in final]
    changed = np.diff(values, axis=0, prepend=values[:1]) != 0
    since = np.maximum.accumulate(np.where(changed, np.arange(len(values))[:, None], 0), axis=0)
    return _Film(story, values, list(table), ghosts, since)


def _piece(vocabulary: Vocabulary, token: int) -> str:
    """A token as text within a text: decoded after itself, since some tokenizers drop the space of the first word."""
    if isinstance(vocabulary, Integers):
        return f"{token:>{len(str(vocabulary.size - 1))}} "
    once, twice = vocabulary.decode([token]), vocabulary.decode([token, token])
    return twice.removeprefix(once) if twice.startswith(once) else once


def _join_broken(story: Story, values: NDArray[np.int64], table: dict[str, int]) -> None:
    """Show neighbours that only together form a character, such as the bytes of é, at the first of them."""
    broken = np.array([BROKEN in piece for piece in table] + [False])
    decode = lru_cache(maxsize=None)(story.vocabulary.decode)
    for row, shown in zip(story.tokens.reshape(values.shape), values, strict=True):
        bad, end = broken[shown], 0
        for start in np.flatnonzero(bad).tolist():
            for stop in range(start + 2, start + 9):
                if start < end or bad[start:stop].sum() < stop - start:
                    break
                text = decode(tuple(row[start:stop].tolist()))
                if BROKEN not in text:
                    shown[start], shown[start + 1 : stop], end = table[text], table[""], stop


def _document(story: Story) -> dict[str, Any]:
    """A story as the page stores it: the first frame, then only the positions and new values of what changes."""
    if shows_picture(story):
        values = np.where(story.tokens == story.mask_id, MASKED, story.tokens).reshape(len(story.tokens), -1)
        height, width = story.tokens.shape[1:3]
        kind: dict[str, Any] = {"kind": "picture", "height": height, "width": width, "mask": MASK_COLOURS}
    else:
        film = _film(story)
        values, given, columns = film.values, np.flatnonzero(story.given).tolist(), story.tokens.shape[-1]
        kind = {"kind": "text", "pieces": film.pieces, "ghosts": film.ghosts, "given": given, "columns": columns}
    changes = [(np.flatnonzero(old != new).tolist(), new[old != new].tolist()) for old, new in pairwise(values)]
    times = [round(float(time), 6) for time in story.times]
    return {**kind, "times": times, "first": values[0].tolist(), "changes": changes}


def _encode(file: IO[bytes], draw: Callable[[int], Pixels], frames: list[int], milliseconds: int) -> None:
    """Encode all frames with one palette, which includes white, so that colours do not flicker."""
    image = extra("PIL.Image", "images", "an animated GIF")
    some = np.concatenate([draw(frame) for frame in frames[:: len(frames) // 4 + 1] + frames[-1:]]).reshape(1, -1, 3)
    coloured = np.append(some[(some < 240).any(-1)], [INK], axis=0)[None].astype(np.uint8)
    palette = image.new("P", (1, 1))
    palette.putpalette([*PAPER, *image.fromarray(coloured).quantize(255).getpalette()[: 3 * 255]])

    def still(frame: int) -> Any:
        small = image.fromarray(draw(frame)).quantize(palette=palette, dither=image.Dither.NONE)
        scale = -(-NARROW // small.width)
        return small.resize((small.width * scale, small.height * scale), image.Resampling.NEAREST)

    durations = [milliseconds] * (len(frames) - 1) + [max(HELD_MS, milliseconds)]
    rest = (still(frame) for frame in frames[1:])
    still(frames[0]).save(file, "GIF", save_all=True, append_images=rest, duration=durations, loop=0)


def _grid(stories: Sequence[Story]) -> Callable[[int], Pixels]:
    """Returns a function that draws a frame of images, side by side."""
    gaps = image_grid(np.ones((len(stories), *stories[0].tokens.shape[1:3]), dtype=np.uint8)) == 0

    def draw(frame: int) -> Pixels:
        canvas = image_grid(np.stack([_painted(story, min(frame, len(story.tokens) - 1)) for story in stories]))
        canvas[gaps] = GAP
        return canvas

    return draw


def _painted(story: Story, frame: int) -> Pixels:
    """An image [H, W, 3]; a masked channel has the colour of the mask there."""
    tokens = story.tokens[frame] if story.tokens.ndim == 4 else story.tokens[frame, ..., None]
    rows, columns = np.indices(tokens.shape[:2])
    mask = np.array(MASK_COLOURS)[(rows + columns) % 2]
    return np.where(tokens == story.mask_id, mask, tokens).astype(np.uint8)


def _column(stories: Sequence[Story], frames: list[int]) -> Callable[[int], Pixels]:
    """Returns a function that draws a frame of texts, one below the other."""
    image, drawing = (extra(f"PIL.{name}", "images", "an animated GIF") for name in ("Image", "ImageDraw"))
    font = _font()
    advance = lru_cache(maxsize=None)(font.getlength)
    films = [_film(story) for story in stories]

    def placed(frame: int) -> list[list[Glyph]]:
        return [_wrapped(film.cells(frame), WIDE - 2 * MARGIN, advance) for film in films]

    def ends(frame: int) -> list[Any]:
        return [np.max([(0, 0), *(glyph[3:] for glyph in glyphs)], axis=0) for glyphs in placed(frame)]

    size = np.max([ends(frame) for frame in frames], axis=0).astype(int)
    width = int(np.clip(size[:, 0].max() + FONT_SIZE + 2 * MARGIN, NARROW, WIDE))
    tops = [0, *np.cumsum((size[:, 1] + 1) * LINE + 2 * MARGIN).tolist()]

    def draw(frame: int) -> Pixels:
        canvas = image.new("RGB", (width, tops[-1]), PAPER)
        pen = drawing.Draw(canvas)
        for glyphs, top in zip(placed(frame), tops[:-1], strict=True):
            pen.line((MARGIN, top, width - MARGIN, top), fill=RULE if top else PAPER)
            for character, colour, begins, x, line in glyphs:
                left, above = MARGIN + x, top + MARGIN + line * LINE
                if colour is None:
                    box = (left + (1 if begins else -3), above + 2, left + advance(character) - 1, above + LINE - 3)
                    pen.rounded_rectangle(box, 2, fill=BOX)
                elif character != " ":
                    pen.text((left, above + LINE // 2), character, fill=colour, font=font, anchor="lm")
        return np.asarray(canvas)

    return draw


@lru_cache(maxsize=1024)
def _colour(share: float) -> Colour:
    """The colour of a token revealed after this share of the frames."""
    hue = (HUES[0] + share * (HUES[1] - HUES[0])) % 360
    red, green, blue = colorsys.hls_to_rgb(hue / 360, 0.42, 0.75)
    return round(255 * red), round(255 * green), round(255 * blue)


def _font() -> Any:
    fonts = extra("PIL.ImageFont", "images", "an animated GIF")
    for name in MONOSPACED:
        with suppress(OSError):
            return fonts.truetype(name, FONT_SIZE, layout_engine=fonts.Layout.BASIC)
    return fonts.load_default(size=FONT_SIZE)


def _wrapped(cells: Iterable[Cell], width: float, advance: Callable[[str], float]) -> list[Glyph]:
    """Lay out every character; a word moves to the next line as a whole, and breaks only if it is too long."""
    glyphs: list[Glyph] = []
    x, line = 0.0, 0
    for word in _words(cells):
        needed = sum(advance(character) for character, *_ in word if character not in " \n")
        for character, colour, begins in word:
            if character == "\n" or x > max(0.0, width - needed):
                x, line, needed = 0.0, line + 1, 0.0
            if character != "\n":
                glyphs.append((character, colour, begins, x, line))
                x, needed = x + advance(character), 0.0
    return glyphs


def _words(cells: Iterable[Cell]) -> Iterator[list[tuple[str, Colour | None, bool]]]:
    """Characters up to where a line may break, with the colour of each and whether it begins a cell."""
    word: list[tuple[str, Colour | None, bool]] = []
    for text, colour in cells:
        if text.startswith(MAY_BREAK):
            yield word
            word = []
        for n, character in enumerate(text.removeprefix(MAY_BREAK).replace("\t", "    ")):
            drawn = character if character.isprintable() or character == "\n" else " "
            word.append((drawn, colour, n == 0))
            if drawn in " \n":
                yield word
                word = []
    yield word


PAGE = """<!DOCTYPE html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:">
<link rel="icon" href="data:,"><title>$title</title>
<style>
:root { color-scheme: light dark; --paper: #fff; --ink: #1e1e22; --soft: #66666e; --box: #dedbe8; --fresh: #fff1b8;
 --tone: 75% 42%; }
@media (prefers-color-scheme: dark) {
 :root { --paper: #17171a; --ink: #e8e8ec; --soft: #a0a0aa; --box: #3a3745; --fresh: #4d4420; --tone: 75% 72%; } }
body { margin: 0 auto; max-width: 60rem; padding: 0 1rem 2rem; font: 1rem/1.5 system-ui, sans-serif;
 background: var(--paper); color: var(--ink); }
h1 { font-size: 1.2rem; overflow-wrap: anywhere; }
#controls, #legend { display: flex; flex-wrap: wrap; align-items: center; gap: .25rem 1rem; padding: .5rem 0; }
#controls { position: sticky; top: 0; background: var(--paper); }
button, select, #slider { min-height: 2.75rem; min-width: 6rem; font: inherit; } #slider { flex: 1 1 12rem; }
#where, #legend { color: var(--soft); font-size: .875rem; font-variant-numeric: tabular-nums; }
i { display: inline-block; width: 1em; height: 1em; border-radius: 3px; vertical-align: -.15em; }
#scale { width: 7em; background: linear-gradient(to right, hsl(220 var(--tone)), hsl(260 var(--tone)),
 hsl(300 var(--tone)), hsl(340 var(--tone)), hsl(380 var(--tone))); }
#text { font: 1rem/1.6 ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; tab-size: 4;
 white-space: pre-wrap; overflow-wrap: anywhere; }
#text span { color: hsl(var(--hue) var(--tone)); }
#text .given { color: var(--ink); } #text .fresh { background: var(--fresh); }
#text .masked { color: transparent; background: var(--box); border-radius: 4px; user-select: none;
 forced-color-adjust: none; box-shadow: inset 0 0 0 1px var(--paper); }
canvas { display: block; max-width: 100%; image-rendering: pixelated; } [hidden] { display: none !important; }
</style>
<h1>$title</h1> <noscript>This page needs JavaScript.</noscript>
<div id="controls"><button id="play" type="button">Play</button>
<input id="slider" type="range" min="0" value="0" aria-label="Frame"> <output id="where"></output>
<select id="which" aria-label="Sample"></select></div>
<div id="legend"><span><i id="swatch"></i> masked</span>
<span id="order">revealed first <i id="scale"></i> last</span> <span id="plain">given: not coloured</span></div>
<div id="text" dir="auto"></div>
<canvas id="picture" role="img" aria-label="The sample at this frame"></canvas>
<script type="application/json" id="data">$data</script>
<script type="module">
const find = id => document.getElementById(id), stories = JSON.parse(find("data").textContent);
let story, last, spans, frame, timer = null;

function stateAt(story, frame) {
  const values = story.first.slice(), since = values.map(() => 0);
  story.changes.slice(0, frame).forEach(([places, news], i) => places.forEach((place, k) => {
    values[place] = news[k];
    since[place] = i + 1;
  }));
  return { values, since };
}
function drawText({ values, since }) {
  values.forEach((value, i) => {
    const span = spans[i], masked = value === -1, fresh = frame > 0 && since[i] === frame;
    const text = story.pieces[masked ? story.ghosts[i] : value];
    if (span.textContent !== text) span.textContent = text;
    span.className = masked ? "masked" : story.plain.has(i) ? "given" : fresh ? "fresh" : "";
    span.style.setProperty("--hue", $cool + ($warm - $cool) * since[i] / Math.max(1, last));
  });
}
function drawPicture({ values }) {
  const { width, height, mask } = story, depth = values.length / (width * height), image = new ImageData(width, height);
  for (let p = 0; p < width * height; p++) {
    const hidden = mask[(p % width + Math.floor(p / width)) % 2];
    const channel = c => { const v = values[p * depth + c % depth]; return v === -1 ? hidden[c] : v; };
    image.data.set([channel(0), channel(1), channel(2), 255], 4 * p);
  }
  find("picture").getContext("2d").putImageData(image, 0, 0);
}
function seek(to) {
  frame = Math.min(Math.max(to, 0), last);
  (story.kind === "text" ? drawText : drawPicture)(stateAt(story, frame));
  find("slider").value = frame;
  find("where").textContent = "frame " + frame + " of " + last + " · t = " + story.times[frame].toFixed(3);
  if (frame === last) run(false);
}
function run(on) {
  clearInterval(timer);
  const pause = Math.min(200, Math.max(16, 8000 / (last + 1)));
  timer = on ? setInterval(() => seek(frame === last ? 0 : frame + 1), pause) : null;
  find("play").textContent = on ? "Pause" : "Play";
}
function show(index) {
  story = stories[index];
  last = story.changes.length;
  const words = story.kind === "text", canvas = find("picture");
  const seen = { text: words, order: words, plain: words && story.given.length > 0, picture: !words };
  Object.keys(seen).forEach(id => { find(id).hidden = !seen[id]; });
  find("swatch").style.background = words ? "var(--box)" : "rgb(" + story.mask[0].join() + ")";
  find("slider").max = last;
  story.plain = new Set(story.given);
  spans = words ? story.first.map(() => document.createElement("span")) : [];
  find("text").replaceChildren(...spans.flatMap((span, i) => (i + 1) % story.columns ? [span] : [span, "\\n"]));
  if (!words) Object.assign(canvas, { width: story.width, height: story.height });
  canvas.style.width = story.width * Math.max(1, Math.floor(512 / story.width)) + "px";
  seek(0);
}
stories.forEach((_, i) => find("which").add(new Option("Sample " + (i + 1), i)));
find("which").hidden = stories.length < 2;
find("which").onchange = event => { show(Number(event.target.value)); run(true); };
find("slider").oninput = event => { run(false); seek(Number(event.target.value)); };
find("play").onclick = () => run(timer === null);
document.onkeydown = event => {
  if (event.target.tagName === "SELECT" || event.altKey || event.ctrlKey || event.metaKey) return;
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key], space = event.key === " " && event.target !== find("play");
  if (step || space) event.preventDefault();
  if (step) { run(false); seek(frame + step); }
  if (space) run(timer === null);
};
show(0);
run(!matchMedia("(prefers-reduced-motion: reduce)").matches);
</script></html>
"""
