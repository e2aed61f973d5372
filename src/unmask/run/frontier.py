"""Sample quality against network calls: samplers × steps × temperatures, judged alike, with real data beside them.

FOLDER/points/*.json    one point each; an interrupted run resumes where it stopped
FOLDER/frontier.json, .md, .png
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..data.vocabulary import Vocabulary
from ..evaluation import Scores, Sequences, per_unit, perplexity, score
from ..evaluation.sample_metrics import SampleMetric, Samples, Value, judged
from ..files import atomic_write, read_kept, write_json
from ..mistakes import extra, require
from ..sampling import find_sampler, fitting, options_of
from ..sampling.frame import together
from .evaluate import decided_by
from .model import Model
from .sampling import Sampling

DATA = "real data"
ALL = "all"
"""Every sampler that fits the model."""
_ROWS = 64
"""Samples per batch when a model judges them."""


@dataclass(frozen=True)
class Frontier:
    """Which settings to try."""

    samplers: tuple[str, ...] = ("ancestral",)
    """Names, optionally with options (first-hitting:tokens_per_call=4), or all."""
    steps: tuple[int, ...] = (8, 16, 32, 64, 128)
    temperatures: tuple[float, ...] = (1.0,)
    count: int = 64
    """Samples for each setting."""
    seed: int = 0
    batch_size: int = 64

    def __post_init__(self) -> None:
        for name in ("samplers", "steps", "temperatures"):
            require(bool(getattr(self, name)), f"no {name}", got="none", allowed="at least one", do="name one")
        require(self.count >= 2, "too few samples", got=self.count, allowed=">= 2", do="use 64")
        for spec in self.samplers:
            if spec != ALL:
                _named(spec)

    def settings(self, model: Model) -> Iterator[Sampling]:
        """Every combination; samplers without a grid have no steps, so they are tried once per temperature."""
        fits = fitting(model.process.schedule, model.method.family, model.network.sees_time)
        specs = dict.fromkeys(name for spec in self.samplers for name in (fits if spec == ALL else (spec,)))
        how = Sampling(seed=self.seed, batch_size=self.batch_size)
        for spec, temperature in product(specs, self.temperatures):
            name, options = _named(spec)
            for steps in self.steps if find_sampler(name).grid else self.steps[:1]:
                yield replace(how, sampler=name, steps=steps, temperature=temperature, options=options)


def _named(spec: str) -> tuple[str, dict[str, Any]]:
    """NAME or NAME:OPTION=VALUE,… as the sampler's name and its options."""
    name, _, given = spec.partition(":")
    return name, options_of(name, given.split(",") if given else ())


@dataclass(frozen=True)
class Point:
    """A sampling setting and its results."""

    sampler: str
    steps: int | None
    """None: the sampler has no grid."""
    temperature: float
    samples: int
    calls: float
    """Network calls per sample."""
    seconds: float
    values: dict[str, Value]
    options: dict[str, Any] = field(default_factory=dict)
    """Options of the sampler that are not its defaults."""

    @property
    def title(self) -> str:
        """The setting in words."""
        if self.sampler == DATA:
            return DATA
        steps = "" if self.steps is None else f", {self.steps} steps"
        return f"{self.sampler}{self._options}{steps}, temperature {self.temperature:g}"

    @property
    def curve(self) -> str:
        """The line that the point lies on: settings that differ in their steps or, without a grid, in their options."""
        options = "" if self.steps is None else self._options
        return f"{self.sampler}{options}, temperature {self.temperature:g}"

    @property
    def _options(self) -> str:
        return "".join(f", {name} {value:g}" for name, value in self.options.items())


def frontier(
    model: Model,
    wanted: Frontier,
    metrics: Sequence[SampleMetric],
    data: Samples,
    folder: Path,
    about: dict[str, Any],
    progress: Callable[[int, int], None] | None = None,
) -> list[Point]:
    """The points; the first is `data`, real data other than what the metrics compare with.

    about: what else determines the results (checkpoint, judge); stored with them.
    """
    settings = list(wanted.settings(model))
    points = [_real(data, metrics)]
    for number, sampling in enumerate(settings):
        points.append(_point(model, sampling, wanted.count, metrics, folder / "points", about))
        if progress is not None:
            progress(number + 1, len(settings))
    _write(folder, wanted, points, about)
    return points


def _real(data: Samples, metrics: Sequence[SampleMetric]) -> Point:
    return Point(DATA, None, 1.0, len(data.tokens), 0.0, 0.0, judged(data, metrics))


def _point(
    model: Model,
    sampling: Sampling,
    count: int,
    metrics: Sequence[SampleMetric],
    folder: Path,
    about: dict[str, Any],
) -> Point:
    settings = asdict(sampling) | {"count": count} | about
    path = folder / f"{model.sampler(sampling)}-{decided_by(settings)}.json"
    if path.exists():
        found = read_kept(path)["point"]
        return Point(**found | {"values": {name: Value.from_json(value) for name, value in found["values"].items()}})
    start = time.perf_counter()
    sampled = model.fill(model.blank(count, sampling.seed), sampling)
    seconds = time.perf_counter() - start
    rows = list(sampled.tokens.cpu().numpy())
    values = judged(samples_of(model, rows), metrics)
    name = model.sampler(sampling)
    steps = sampling.steps if find_sampler(name).grid else None
    point = Point(name, steps, sampling.temperature, count, sampled.calls, round(seconds, 3), values, sampling.options)
    write_json(path, {"settings": settings, "point": asdict(point)})
    return point


def samples_of(model: Model, rows: Sequence[np.ndarray[Any, Any]]) -> Samples:
    """Rows with their texts, cut at the end of text where rows differ in length."""
    end = model.vocabulary.eos_id if model.facts.length_counts else None
    cut = [row if end is None else row[: int((row == end).argmax())] if (row == end).any() else row for row in rows]
    if len(model.facts.shape) > 1:
        return Samples(rows, [])
    return Samples(cut, [model.vocabulary.decode(row) for row in cut])


def under_model(judge: Model, vocabulary: Vocabulary) -> SampleMetric:
    """Perplexity per token under an autoregressive model of ours with the same tokens, whose likelihood is exact."""
    estimator, allowed = judge.estimator(), "an autoregressive model (unmask train --method ar)"
    require(
        estimator.exact,
        "this judge only bounds the likelihood",
        got=judge.method.family.name,
        allowed=allowed,
        do="train one",
    )
    same = judge.vocabulary.to_json() == vocabulary.to_json()
    require(
        same,
        "the judge has a different vocabulary",
        got=repr(judge.vocabulary),
        allowed="the model's",
        do="train one on its data",
    )

    def perplexities(samples: Samples) -> dict[str, Value]:
        rows = [torch.from_numpy(np.asarray(row, dtype=np.int64)) for row in samples.tokens if row.size]
        batches = (
            Sequences(torch.stack([rows[i] for i in part]).to(judge.device), torch.tensor(part, device=judge.device))
            for part in together(rows, _ROWS)
        )
        found = Scores.joined(score(judge.network, batches, estimator, draws=1, repeats=2))
        return {"generative perplexity": Value(*perplexity(per_unit(found, found.tokens)))}

    return perplexities


# --------------------------------------------------------------------------------------------- results


def _write(folder: Path, wanted: Frontier, points: Sequence[Point], about: dict[str, Any]) -> None:
    document = {"wanted": asdict(wanted), **about, "points": [asdict(point) for point in points]}
    write_json(folder / "frontier.json", document)
    with atomic_write(folder / "frontier.md", "w") as file:
        file.write(markdown(points) + "\n")


def format_value(value: Value | None) -> str:
    """A value with its interval, as text."""
    if value is None:
        return ""
    interval = "" if value.low is None else f" ({value.low:.4g}–{value.high:.4g})"
    return f"{value.value:.4g}{interval}"


def markdown(points: Sequence[Point]) -> str:
    """A table, one row per point."""
    names = list(dict.fromkeys(name for point in points for name in point.values))
    lines = ["| | network calls | " + " | ".join(names) + " |", "|---" * (2 + len(names)) + "|"]
    for point in points:
        values = " | ".join(format_value(point.values.get(name)) for name in names)
        lines.append(f"| {point.title} | {point.calls:.1f} | {values} |")
    return "\n".join(lines)


def plot_points(points: Sequence[Point], path: Path) -> None:
    """Plot every value against network calls, one line per `Point.curve`, real data as a dashed line."""
    extra("matplotlib", "plot", "drawing the frontier")
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(name for point in points for name in point.values))
    across = min(3, len(names))
    down = -(-len(names) // across)
    picture = Figure(figsize=(4.4 * across, 3.3 * down), layout="constrained")
    for place, name in enumerate(names, start=1):
        _panel(picture.add_subplot(down, across, place), name, points)
    picture.axes[0].legend(fontsize=7)
    with atomic_write(path) as file:
        picture.savefig(file, format="png", dpi=130)


def _panel(axes: Any, name: str, points: Sequence[Point]) -> None:
    real, *others = (point for point in points if name in point.values or point.sampler == DATA)
    if name in real.values:
        axes.axhline(real.values[name].value, color="0.6", linestyle="--", label=DATA)
    for curve in dict.fromkeys(p.curve for p in others):
        own = [p for p in others if p.curve == curve]
        own.sort(key=lambda p: p.calls)
        values = [p.values[name] for p in own]
        below = [0.0 if v.low is None else v.value - v.low for v in values]
        above = [0.0 if v.high is None else v.high - v.value for v in values]
        calls = [p.calls for p in own]
        axes.errorbar(
            calls, [v.value for v in values], [below, above], marker="o", markersize=3, capsize=2, label=curve
        )
    axes.set(xscale="log", xlabel="network calls per sample", title=name)
