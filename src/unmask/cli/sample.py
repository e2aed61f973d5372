"""`unmask sample` and `unmask infill`: draw samples, show and write them."""

import json
import sys
import time
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from torch import Tensor

from unmask.data.sources.images import read_picture
from unmask.files import atomic_write, check_files
from unmask.mistakes import extra, fail, require
from unmask.run import Model, Sampling
from unmask.run.animation import write_gif, write_html
from unmask.run.previews import image_grid, is_picture, png
from unmask.sampling.frame import together

from .live import Watch, revealed, until_end, watched
from .machine import print_json
from .progress import bar, silent

_ANIMATED = 16
"""Maximum number of samples in an animation and in the live view."""
_OFTEN = 0.5
"""Seconds between two checks of the progress of a batch."""


@dataclass(frozen=True)
class Wanted:
    """What to do with the samples."""

    out: Path | None
    gif: Path | None
    html: Path | None
    as_json: bool
    trim: bool

    def __post_init__(self) -> None:
        check_files(self.out, self.gif, self.html)
        if self.gif is not None:
            extra("PIL.Image", "images", "an animated GIF")


def run(model: Model, x: list[Tensor], sampling: Sampling, wanted: Wanted) -> int:
    """Fill the rows, those of one length together; show and write them, and print the cost."""
    console = Console(quiet=wanted.as_json)
    picture = is_picture(model.vocabulary, model.facts.shape)
    good, allowed = model.vocabulary.eos_id is not None or not wanted.trim, "a model with an end of text"
    require(good, "there is no end to cut the samples at", got="--trim", allowed=allowed, do="leave it out")
    _check_names(wanted, picture, one_shape=len({row.shape for row in x}) == 1)
    out = wanted.out or (_free("samples.png") if picture and not wanted.as_json else None)
    check_files(out)
    start = time.perf_counter()
    keep = wanted.gif is not None or wanted.html is not None
    watch = Watch(
        model.vocabulary, model.process.mask_id, picture, _ANIMATED if keep else 1 if picture else 4, wanted.trim, keep
    )
    rows, calls = _filled(model, x, sampling, watch, console)
    seconds = time.perf_counter() - start
    texts = [_text(model, row, wanted.trim) for row in rows]
    cost = {"samples": len(rows), "network_calls_per_sample": calls / len(rows), "seconds": round(seconds, 3)}
    if out is not None:
        _write(out, rows, texts)
        if model.fixed_shape and out.suffix in ("", ".txt") and any("\n" in text for text in texts):
            print(
                f"{out} has samples of several lines: write .json to keep them apart for unmask check", file=sys.stderr
            )
    for path, write in ((wanted.gif, write_gif), (wanted.html, _write_page)):
        if path is not None:
            write(path, watch.stories())
    if wanted.as_json:
        print_json({"texts": None if picture else texts, "tokens": [r.tolist() for r in rows], **cost})
        return 0
    _show(texts if out is None else texts[: watch.shown], watch, picture, console)
    written = [str(path) for path in (out, wanted.gif, wanted.html) if path is not None]
    if written:
        console.print("wrote " + ", ".join(written), highlight=False)
    each, name = calls / len(rows), model.sampler(sampling)
    number = f"{len(rows)} sample{'s' if len(rows) != 1 else ''}"
    print(f"{number} in {seconds:.1f} s, {each:.1f} network calls each ({name})", file=sys.stderr)
    return 0


def _filled(
    model: Model, x: list[Tensor], sampling: Sampling, watch: Watch, console: Console
) -> tuple[list[np.ndarray[Any, Any]], int]:
    """Every row filled, in the given order, and the total number of network calls. The first batch is watched."""
    result: dict[int, np.ndarray[Any, Any]] = {}
    calls = 0
    batches = together(x, sampling.batch_size)
    watch.rows = list(batches[0][: watch.shown])
    live = console.is_terminal and not console.quiet and len(batches) == 1
    with nullcontext(silent) if live else bar(console, "sampling") as show:
        for number, index in enumerate(batches):
            given = torch.stack([x[i] for i in index])
            frames, told = model.frames(given, sampling, torch.tensor(index)), time.monotonic()
            for last in watched(frames, watch, console, live) if number == 0 else frames:
                if time.monotonic() - told > _OFTEN:  # counting masked positions waits for the device
                    show(len(result) + len(index) * revealed(given, last, watch.mask_id), len(x))
                    told = time.monotonic()
            calls += last.calls
            result |= dict(zip(index, last.tokens.cpu().numpy(), strict=True))
            show(len(result), len(x))
    return [result[i] for i in range(len(x))], calls


def _text(model: Model, row: np.ndarray[Any, Any], trim: bool) -> str:
    """The decoded text; with trim, up to the first end of text."""
    flat = row.ravel()
    return model.vocabulary.decode(until_end(flat, model.vocabulary) if trim else flat)


def _show(texts: list[str], watch: Watch, picture: bool, console: Console) -> None:
    """Print the samples; in a terminal, coloured by when tokens appeared, if all were in the watched first batch."""
    if console.is_terminal and (picture or list(range(len(texts))) == watch.rows):
        console.print(watch.renderable(), soft_wrap=not picture)
    elif not picture:
        print("\n\n".join(texts))


def _check_names(wanted: Wanted, picture: bool, one_shape: bool) -> None:
    """Check the file names before any work is done."""
    kind = wanted.out.suffix if wanted.out is not None else ""
    known = ("", ".txt", ".json", ".npz", ".png")
    require(kind in known, "unknown file type", got=wanted.out, allowed=", ".join(known[1:]), do="use another name")
    good = picture or kind != ".png"
    require(good, "these samples are not images", got=wanted.out, allowed=".txt, .json, .npz", do="use another name")
    good = one_shape or kind != ".npz"
    require(good, "rows of different lengths are not an array", got=wanted.out, allowed=".txt, .json", do="write .json")
    for path, ending in ((wanted.gif, ".gif"), (wanted.html, ".html")):
        good = path is None or path.suffix == ending
        require(good, f"the name does not end in {ending}", got=path, allowed=f"a name in {ending}", do="rename it")


def _write(path: Path, rows: list[np.ndarray[Any, Any]], texts: list[str]) -> None:
    """Write in the format of the suffix: .png, .npz, .json or text."""
    if path.suffix == ".npz":
        with atomic_write(path) as file:
            np.savez_compressed(file, tokens=np.stack(rows))
    elif path.suffix == ".png":
        with atomic_write(path) as file:
            file.write(png(image_grid(np.stack(rows).astype(np.uint8))))
    elif path.suffix == ".json":
        with atomic_write(path, "w") as file:
            json.dump([{"text": text, "tokens": row.tolist()} for text, row in zip(texts, rows, strict=True)], file)
    else:
        with atomic_write(path, "w") as file:
            file.write("\n\n".join(texts) + "\n")


def _free(name: str) -> Path:
    """The name, or the first of name-2, name-3, … that is not taken: what was not asked for replaces nothing."""
    path = Path(name)
    places = chain([path], (path.with_stem(f"{path.stem}-{number}") for number in count(2)))
    return next(place for place in places if not place.exists())


def _write_page(path: Path, stories: Any) -> None:
    write_html(path, stories, "unmask")


def picture_prompt(model: Model, image: Path, mask: Path) -> Tensor:
    """An image whose masked part (white in the mask) is to be filled; other data is given as an array."""
    shape, top = model.facts.shape, model.vocabulary.size - 1
    pixels, hidden = _pixels(image, shape, top), _pixels(mask, shape[:2], 255)
    row = torch.from_numpy(pixels.astype(np.int64))
    where = torch.from_numpy(hidden > (127 if hidden.max() > 1 else 0))  # white, or 1, or true
    require(bool(where.any()), "nothing is masked", got=mask, allowed="some white pixels", do="paint what to fill")
    where = where if where.ndim == row.ndim else where[..., None].expand(row.shape)
    return row.masked_fill(where, model.process.mask_id)


def _array(path: Path) -> np.ndarray[Any, Any]:
    try:
        found: np.ndarray[Any, Any] = np.load(path, allow_pickle=False)
        return found
    except (ValueError, EOFError):
        fail(f"{path} is not an array file", got="another file", allowed="a .npy", do="save it with numpy")


def _pixels(path: Path, shape: tuple[int, ...], top: int) -> np.ndarray[Any, Any]:
    """An image, or an array in a .npy file, of this shape, with values up to `top`."""
    found = _array(path) if path.suffix == ".npy" else np.asarray(read_picture(path, grey=len(shape) == 2))
    require(
        found.shape == shape,
        f"the size of {path} does not match the model",
        got="×".join(map(str, found.shape)),
        allowed="×".join(map(str, shape)),
        do="resize it",
    )
    low, high = found.min(), found.max()
    whole = found.dtype.kind in "biu" and low >= 0 and high <= top
    got, allowed = f"{found.dtype} {low}..{high}", f"whole numbers 0..{top}"
    require(whole, f"{path} has values that the model does not know", got=got, allowed=allowed, do="scale it")
    return found
