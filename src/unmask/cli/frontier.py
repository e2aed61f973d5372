"""`unmask frontier`: quality against network calls."""

import json
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from unmask.data import Dataset, Split
from unmask.evaluation import Judge, NGram, extractor, find_checker
from unmask.evaluation.yardsticks import (
    Samples,
    Yardstick,
    checked_by,
    distances_by,
    mauve_by,
    under_judge,
    under_ngram,
    variety,
)
from unmask.mistakes import require
from unmask.run import Model, Run, load
from unmask.run.frontier import Frontier, Point, draw, frontier, samples_of, shown
from unmask.run.previews import is_picture

from .evaluate import bar

_COUNTED = 5_000_000
"""Training tokens that the n-gram model counts."""
_ORDER = 3
_KNOWN = 200_000
"""Training rows that a sample is compared with to be called new."""


@dataclass(frozen=True)
class By:
    """What to judge samples by."""

    judge: str | None
    features: str
    checker: str | None


def run(folder: Path, wanted: Frontier, by: By, split: str, out: Path | None, as_json: bool) -> int:
    """Sample, judge, show, write."""
    console = Console(quiet=as_json)
    run_ = Run.open(folder)
    model = load(folder)
    dataset = Dataset(run_.config.data)
    train, held_out = (dataset.split(name, run_.config.length) for name in ("train", split))
    require(len(held_out) >= 2, f"the split {split} is empty", got=len(held_out), allowed=">= 2", do="name another")
    data = samples_of(model, _rows(held_out, wanted.count))
    yardsticks = list(_yardsticks(model, train, data, by))
    about = {"split": split, **asdict(by), "checkpoint": run_.newest}
    place = out or folder / "frontier"
    with bar(console, "samplers") as progress:
        points = frontier(model, wanted, yardsticks, data, place, about, progress)
    draw(points, place / "frontier.png")
    if as_json:
        print(json.dumps([asdict(point) for point in points], ensure_ascii=False))
        return 0
    _show(points, console)
    console.print(f"wrote {place / 'frontier'}.json, .md and .png", highlight=False, soft_wrap=True)
    return 0


def _yardsticks(model: Model, train: Split, data: Samples, by: By) -> Iterator[Yardstick]:
    """Those that fit the data."""
    if is_picture(model.vocabulary, model.facts.shape):
        yield distances_by(extractor(by.features), data)
        return
    yield variety
    counted = np.concatenate([row.ravel() for row in _rows(train, max(1, _COUNTED // math.prod(train.shape)))])
    yield under_ngram(NGram(counted, _ORDER, model.vocabulary.size))
    if by.judge is not None:
        judge = Judge(by.judge, model.device)
        yield under_judge(judge)
        yield mauve_by(judge, data)
    if by.checker is not None:
        yield checked_by(find_checker(by.checker), samples_of(model, _rows(train, _KNOWN)).texts)


def _rows(split: Split, count: int) -> list[np.ndarray[Any, Any]]:
    return list(split.read(np.arange(min(count, len(split)))).tokens)


def _show(points: list[Point], console: Console) -> None:
    names = list(dict.fromkeys(name for point in points for name in point.values))
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("sampler", no_wrap=True)
    for column in ("steps", "temp.", "calls", *names):
        table.add_column(column, justify="right", overflow="fold")
    for point in points:
        settings = (str(point.steps or ""), f"{point.temperature:g}" if point.calls else "", f"{point.calls:.1f}")
        table.add_row(point.sampler, *settings, *(shown(point.values.get(name)) for name in names))
    console.print(table)
