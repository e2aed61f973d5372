"""`unmask frontier`: quality against network calls."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from unmask.data import Split
from unmask.evaluation import Judge, NGram, extractor, find_checker
from unmask.evaluation.sample_metrics import (
    SampleMetric,
    Samples,
    checked_by,
    distances_by,
    frequencies_near,
    mauve_by,
    under_judge,
    under_ngram,
    variety,
)
from unmask.files import check_folder
from unmask.mistakes import extra, require
from unmask.run import Model, find_model
from unmask.run.check import texts_of
from unmask.run.evaluate import Evaluation, split_of
from unmask.run.folder import FACTS, ModelFolder
from unmask.run.frontier import Frontier, Point, format_value, frontier, plot_points, samples_of, under_model
from unmask.run.model import load
from unmask.run.previews import is_picture

from .machine import print_json
from .progress import bar, keeping

_COUNTED = 5_000_000
"""Maximum number of training tokens that the n-gram model counts."""
_ORDER = 3


@dataclass(frozen=True)
class By:
    """How to judge samples."""

    judge: str | None
    features: str
    checker: str | None


@dataclass(frozen=True)
class Real:
    """What to compare samples with."""

    split: str
    data: str | None
    """A folder of prepared data; None: the run's own."""


def run(name: str, wanted: Frontier, by: By, real: Real, out: Path | None, as_json: bool) -> int:
    """Sample, judge, show and write."""
    console = Console(quiet=as_json)
    place = out or find_model(name).results / "frontier"
    check_folder(place)
    extra("matplotlib", "plot", "drawing the frontier")  # fail before the work, not after
    points = measured(name, wanted, by, real, place, console)
    plot_points(points, place / "frontier.png")
    if as_json:
        print_json([asdict(point) for point in points])
        return 0
    _show(points, console)
    console.print(f"wrote {place / 'frontier'}.json, .md and .png", highlight=False, soft_wrap=True)
    return 0


def measured(name: str, wanted: Frontier, by: By, real: Real, place: Path, console: Console) -> list[Point]:
    """All points, judged by the metrics that fit the data; written to `place`, and not sampled again if present."""
    found = find_model(name).pinned()
    model = load(found)
    train, held_out = (split_of(found, model, Evaluation(part, real.data)) for part in ("train", real.split))
    count, do = len(held_out), "choose another split"
    picture = is_picture(model.vocabulary, model.facts.shape)
    least = 2 if picture else 1  # of samples, and of each half of the real data: pictures are compared by covariances
    require(count >= 2 * least, f"the split {real.split} is too small", got=count, allowed=f">= {2 * least}", do=do)
    require(wanted.count >= least, "too few samples", got=wanted.count, allowed=f">= {least}", do="raise --count")
    _check_used(by, picture)
    rows = _rows(held_out, 2 * wanted.count)
    data, other = samples_of(model, rows[::2]), samples_of(model, rows[1::2])
    judge = None if by.judge is None or not (Path(by.judge) / FACTS).exists() else find_model(by.judge).pinned()
    metrics = list(_metrics(model, train, data, by, judge))
    about = {"split": real.split, "content": held_out.identity, **asdict(by), "checkpoint": found.identity}
    about |= {"rows": "every other one", "mauve": "of unit vectors"}  # kept points of older versions are not read
    about |= {} if real.data is None else {"data": real.data}
    about |= {} if judge is None else {"judge_checkpoint": judge.identity}
    with keeping(f"finished measurements are kept in {place}"), bar(console, "samplers") as progress:
        return frontier(model, wanted, metrics, other, place, about, progress)


def _check_used(by: By, picture: bool) -> None:
    """Refuse a judge of other data, which would be ignored."""
    for name, default in (("judge", None), ("checker", None)) if picture else (("features", "pixels"),):
        got, what = getattr(by, name), f"{'images' if picture else 'texts'} are not measured by --{name}"
        require(
            got == default, what, got=got, allowed="--features" if picture else "--judge and --checker", do="omit it"
        )
    if by.checker is not None:
        find_checker(by.checker)


def _metrics(model: Model, train: Split, data: Samples, by: By, judge: ModelFolder | None) -> Iterator[SampleMetric]:
    """The metrics that fit the data. judge: a model of unmask; one of Hugging Face is loaded by its name."""
    if is_picture(model.vocabulary, model.facts.shape):
        yield distances_by(extractor(by.features), data)
        return
    yield variety
    counted = train.stream(0, min(train.tokens, _COUNTED))
    yield frequencies_near(counted, model.vocabulary.size)
    yield under_ngram(NGram(counted, _ORDER, model.vocabulary.size))
    if judge is not None:
        yield under_model(load(judge), model.vocabulary)
    elif by.judge is not None:
        other = Judge(by.judge, model.device)
        yield under_judge(other)
        yield mauve_by(other, data)
    if by.checker is not None:
        yield checked_by(find_checker(by.checker), texts_of(train, model.vocabulary))


def _rows(split: Split, count: int) -> list[np.ndarray[Any, Any]]:
    return list(split.read(np.sort(split.spread(count))).tokens)


def _show(points: list[Point], console: Console) -> None:
    """Print as many columns side by side as fit, the others below."""
    columns = {
        "sampler": [
            ", ".join([point.sampler, *(f"{option} {value:g}" for option, value in point.options.items())])
            for point in points
        ],
        "steps": [str(point.steps or "") for point in points],
        "temp.": [f"{point.temperature:g}" if point.calls else "" for point in points],
        "calls": [f"{point.calls:.1f}" for point in points],
    }
    if all(point.temperature == 1 for point in points):
        del columns["temp."]
    names = list(dict.fromkeys(name for point in points for name in point.values))
    figures = {name: [format_value(point.values.get(name)) for point in points] for name in names}
    for part in _parts(figures, console.width - sum(map(_width, columns.items()))):
        console.print(_table(columns | part), "")


_GAP = 2


def _width(column: tuple[str, list[str]]) -> int:
    """The width of a column; titles are broken between words."""
    title, cells = column
    return max(map(len, (*title.split(), *cells))) + _GAP


def _parts(columns: dict[str, list[str]], room: int) -> Iterator[dict[str, list[str]]]:
    """Split the columns into tables that fit, with at least one column each."""
    part: dict[str, list[str]] = {}
    for column in columns.items():
        if part and sum(map(_width, (*part.items(), column))) > room:
            yield part
            part = {}
        part |= [column]
    yield part


def _table(columns: dict[str, list[str]]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0))
    for i, column in enumerate(columns.items()):
        table.add_column(column[0], justify="right" if i else "left", width=_width(column) - _GAP)
    for row in zip(*columns.values(), strict=True):
        table.add_row(*row)
    return table
