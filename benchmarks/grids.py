"""Schedules and grids: what T steps cost, for the three ways of the paper's Figure 2 (left).

    python -m benchmarks.grids digits MODEL DATA --budget 90
    python -m benchmarks.grids infill MODEL DATA --budget 50

One network, which does not see the time, is used for all three: schedule and grid then only determine how many tokens
each step reveals, by α at the grid's points. The linear schedule on the cosine grid and the cosine schedule on the
uniform grid have the same α and so the same distribution; with different seeds, their difference shows the noise.

digits: compares samples of images, with and without a class, with the test set, by the features of a small classifier
that is trained here. The features are not Inception's, so nothing here is FID.
infill: hides half of held-out text, scattered or as one gap, and fills it in. Measures the conflict (the exact number
of bits by which drawing the tokens of a step together differs from drawing them one by one), the bits per filled
token under an n-gram model of the training data, and how many tokens match the text.
"""

import argparse
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unmask.configs import to_json
from unmask.core import Streams
from unmask.core.device import mixed
from unmask.data import Split
from unmask.evaluation import (
    Estimate,
    NGram,
    Scores,
    Share,
    bits,
    frechet,
    in_groups,
    jackknife,
    per_unit,
    squared_mmd,
)
from unmask.evaluation.distances import Features
from unmask.mistakes import require
from unmask.run import Model, Sampling, find_model
from unmask.run.evaluate import Evaluation, split_of
from unmask.run.folder import ModelFolder
from unmask.run.model import load
from unmask.run.previews import image_grid, is_picture, png
from unmask.sampling import Predictor, Sampled
from unmask.training import MD4Config

from . import digit_classifier
from .digit_classifier import Images, Read, Reader
from .record import Record, plainly, rounds

COUNTED = 5_000_000
"""Training tokens that the n-gram model counts."""
ORDER = 3
GROUPS = 10
"""Groups of samples, for the errors of distances."""
REFERENCE = 1000
"""Rows of the test set for the kernel distance, whose cost grows with the number of pairs."""


@dataclass(frozen=True)
class Way:
    """A schedule and a grid to sample with."""

    name: str
    schedule: Literal["linear", "cosine"]
    grid: Literal["uniform", "cosine"]

    def model(self, trained: Model) -> Model:
        """The same network with this schedule."""
        return replace(trained, method=MD4Config(schedule=self.schedule).build(trained.network))


WAYS = (
    Way("linear, uniform grid", "linear", "uniform"),
    Way("linear, cosine grid", "linear", "cosine"),
    Way("cosine, uniform grid", "cosine", "uniform"),
)


@dataclass(frozen=True)
class Study:
    """A model and data to study it on."""

    found: ModelFolder
    model: Model
    train: Split
    test: Split

    @classmethod
    def open(cls, model: str, data: str) -> "Study":
        """Open a model that does not see the time: another schedule would show it times it was not trained for."""
        found = find_model(model)
        opened = load(found)
        good = not opened.network.sees_time and isinstance(found.config.method, MD4Config)
        require(good, "another schedule changes this model", got=model, allowed="MD4 without time", do="use another")
        train, test = (split_of(found, opened, Evaluation(part, data)) for part in ("train", "test"))
        return cls(found, opened, train, test)


def _all(split: Split, most: int | None = None) -> NDArray[np.int64]:
    return split.read(np.arange(min(len(split), most or len(split)))).tokens


# ----------------------------------------------------------------------------------------------- images


@dataclass(frozen=True)
class Setting:
    """One point of the plot."""

    way: Way
    steps: int
    seed: int
    conditional: bool


def digits(study: Study, steps: Sequence[int], size: int, budget: float, seed: int, sheet: Path | None) -> None:
    """Draw rounds of `size` samples of every setting while there is time, then compute their distances."""
    record, model = Record("grids_digits", seed), study.model
    require(
        is_picture(model.vocabulary, model.facts.shape) and model.network.classes > 0,
        "the model does not generate images with classes",
        got=model.facts.shape,
        allowed="two-dimensional images with labels",
        do="use another model",
    )
    good = size >= 2 * GROUPS
    require(good, "the rounds are too small", got=size, allowed=f">= {2 * GROUPS}", do="raise --size")
    reader, about = reader_of(study, seed)
    ways = [way.model(model) for way in WAYS]
    settings = [
        Setting(way, count, seed + number, conditional)
        for conditional, (number, way), count in product((False, True), enumerate(WAYS), steps)
    ]
    images: dict[Setting, list[Images]] = defaultdict(list)
    asked: dict[Setting, list[NDArray[np.int64]]] = defaultdict(list)
    calls: dict[Setting, float] = {}
    for done in rounds(budget):
        classes = np.random.default_rng((seed, done)).choice(np.asarray(study.train.labels), size)
        for setting in settings:
            drawn = draw(ways[WAYS.index(setting.way)], setting, done * size, classes)
            images[setting].append(drawn.tokens.cpu().numpy().astype(np.uint8))
            asked[setting].append(classes)
            calls[setting] = drawn.calls
        print(f"{(done + 1) * size} samples of each setting", flush=True)
    real = reader(_all(study.test).astype(np.uint8)).features
    rows = [
        {"way": s.way.name, "steps": s.steps, "conditional": s.conditional, "calls": round(calls[s], 2)}
        | judged(reader(np.concatenate(images[s])), real, np.concatenate(asked[s]) if s.conditional else None)
        for s in settings
    ]
    count = len(images[settings[0]]) * size
    floor = judged(reader(_some(study.train, count, seed)), real, None)
    record.write(model=to_json(study.found.config), samples=count, classifier=about, floor=floor, rows=rows)
    if sheet is not None:
        sheet.write_bytes(png(image_grid(np.concatenate([images[s][0][: len(steps)] for s in settings]))))


def draw(model: Model, setting: Setting, first: int, classes: NDArray[np.int64]) -> Sampled:
    """Samples from number `first` on, with these classes if the setting is conditional.

    Classes are drawn independently from those of the training set, so the samples are independent, as errors require.
    """
    count = len(classes)
    sampling = Sampling(steps=setting.steps, grid=setting.way.grid, seed=setting.seed, batch_size=count)
    labels = torch.from_numpy(classes) if setting.conditional else None
    return model.fill(model.blank(count, setting.seed), sampling, first + torch.arange(count), labels)


def reader_of(study: Study, seed: int) -> tuple[Reader, dict[str, Any]]:
    """The classifier, with features scaled by the test set, and the facts about it to record."""
    train, test = (_all(split).astype(np.uint8) for split in (study.train, study.test))
    labels, truth = study.train.labels, study.test.labels
    require(labels is not None and truth is not None, "no labels", got="none", allowed="classes", do="prepare them")
    reader = digit_classifier.trained(train, np.asarray(labels), study.model.device, seed=seed).scaled_to(test)
    right = float((reader(test).classes == truth).mean())
    parameters = sum(p.numel() for p in reader.network.parameters())
    return reader, {"test_accuracy": right, "parameters": parameters, "features": digit_classifier.FEATURES}


def _some(split: Split, count: int, seed: int) -> Images:
    rows = np.random.default_rng(seed).choice(len(split), min(count, len(split)), replace=False)
    return split.read(np.sort(rows)).tokens.astype(np.uint8)


def judged(read: Read, real: Features, asked: NDArray[np.int64] | None) -> dict[str, Any]:
    """Distances to real features, with errors, and the share classified as the requested class."""
    value, error = jackknife(lambda x: frechet(x, real), read.features, groups=GROUPS)
    kernel = [squared_mmd(part, real[:REFERENCE]) for part in np.array_split(read.features, GROUPS)]
    found: dict[str, Any] = {
        "frechet": {"mean": float(value), "error": float(error)},
        "kernel": {"mean": float(np.mean(kernel)), "error": float(np.std(kernel, ddof=1) / GROUPS**0.5)},
    }
    if asked is not None:
        right = Share(float((read.classes == asked).mean()), len(asked))
        found["as_asked"] = {"mean": right.value, "error": right.error}
    return found


# ------------------------------------------------------------------------------------------------- text


Pattern = Callable[[NDArray[np.int64], np.random.Generator], NDArray[np.bool_]]
"""Rows [B, N] → which positions are hidden."""


def _scattered(rows: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.bool_]:
    """Half of the positions, anywhere."""
    found: NDArray[np.bool_] = rng.random(rows.shape).argsort(1).argsort(1) < rows.shape[1] // 2
    return found


def _gap(rows: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.bool_]:
    """Half of the positions, in the middle."""
    del rng
    start, length = rows.shape[1] // 4, rows.shape[1] // 2
    place = np.arange(rows.shape[1])
    return np.broadcast_to((place >= start) & (place < start + length), rows.shape).copy()


PATTERNS: dict[str, Pattern] = {"scattered": _scattered, "one gap": _gap}


@dataclass(frozen=True)
class Filling:
    """One way to fill in."""

    pattern: str
    name: str
    model: Model
    sampling: Sampling
    steps: int | None
    """None means one token at a time, without a grid."""


@dataclass(frozen=True)
class Filled:
    """What was filled into some rows, one entry for each row."""

    conflict: NDArray[np.float64]
    """Conflict in nats."""
    ngram: NDArray[np.float64]
    """Nats of the filled tokens under the n-gram model."""
    right: NDArray[np.float64]
    """Number of tokens that match the text."""
    hidden: NDArray[np.int64]
    calls: float


def infill(study: Study, steps: Sequence[int], size: int, budget: float, seed: int) -> None:
    """Fill rounds of `size` rows of the test split in every way while there is time."""
    record, model = Record("grids_infill", seed), study.model
    text = len(model.facts.shape) == 1
    require(
        text,
        "the model does not generate text",
        got=model.facts.shape,
        allowed="rows of tokens",
        do="use another model",
    )
    counted = _all(study.train, max(1, COUNTED // study.train.shape[0])).ravel()
    ngram = NGram(counted, ORDER, model.vocabulary.size)
    order = np.random.default_rng(seed).permutation(len(study.test))
    fillings = list(fillings_of(model, steps, size, seed))
    found: dict[int, list[Filled]] = defaultdict(list)
    truth: dict[str, list[Filled]] = defaultdict(list)
    for done in rounds(budget):
        index = order[done * size : (done + 1) * size]
        if not len(index):
            break
        x_0 = study.test.read(index).tokens
        hidden = {name: hide(x_0, np.random.default_rng((seed, done))) for name, hide in PATTERNS.items()}
        for name, where in hidden.items():
            truth[name].append(_measured(ngram, x_0, x_0, where, np.zeros(len(x_0)), 0.0))
        for number, filling in enumerate(fillings):
            found[number].append(fill(filling, x_0, hidden[filling.pattern], index, ngram))
        print(f"{min((done + 1) * size, len(order))} rows with each filling", flush=True)
    rows = [
        {"pattern": filling.pattern, "way": filling.name, "steps": filling.steps} | figures(found[number])
        for number, filling in enumerate(fillings)
    ]
    text_itself = {name: figures(parts)["ngram"] for name, parts in truth.items()}
    about = {"ngram_order": ORDER, "ngram_tokens": len(counted), "text": text_itself, "tokens": x_0.shape[1]}
    count = sum(len(part.hidden) for part in found[0])
    record.write(model=to_json(study.found.config), sequences=count, **about, rows=rows)


def fillings_of(model: Model, steps: Sequence[int], size: int, seed: int) -> Iterator[Filling]:
    """For each pattern, the three combinations with these numbers of steps, and one token at a time."""
    models = [way.model(model) for way in WAYS]
    for pattern in PATTERNS:
        for (number, way), count in product(enumerate(WAYS), steps):
            sampling = Sampling(steps=count, grid=way.grid, seed=seed + number, batch_size=size)
            yield Filling(pattern, way.name, models[number], sampling, count)
        alone = Sampling("first-hitting", seed=seed + len(WAYS), batch_size=size)
        yield Filling(pattern, "one at a time", model, alone, None)


def fill(
    filling: Filling, x_0: NDArray[np.int64], hidden: NDArray[np.bool_], index: NDArray[np.int64], ngram: NGram
) -> Filled:
    """Fill in what is hidden, and measure it."""
    model, numbers = filling.model, torch.from_numpy(index)
    mask = torch.from_numpy(hidden)
    x, rank, calls = torch.from_numpy(x_0), torch.zeros(x_0.shape, dtype=torch.int64, device=model.device), 0.0
    for frame in model.frames(x.masked_fill(mask, model.process.mask_id), filling.sampling, numbers):
        rank[frame.changed] = frame.step
        last, calls = frame.tokens, frame.calls / len(x)
    apart = conflict(model, last, rank, Streams(filling.sampling.seed, numbers.to(model.device)).fork("order"))
    return _measured(ngram, x_0, last.cpu().numpy(), hidden, apart.cpu().numpy(), calls)


def conflict(model: Model, x: Tensor, rank: Tensor, streams: Streams) -> Tensor:
    """log p_together − log p_one_by_one of the tokens each step revealed, in nats [B]; its mean is a KL divergence.

    rank: the step at which a token was revealed, 0 for what was given. One by one means in a random order within each
    step, so the two differ only where a step reveals several tokens.
    """
    process = model.process
    late = (rank + streams.uniform(*x.shape[1:])).masked_fill(rank == 0, 0.0)
    one_by_one = late.argsort(1).argsort(1) + 1 - (rank == 0).sum(1, keepdim=True)
    with mixed(x.device):
        together, apart = (
            in_groups(Predictor(model.network, process.mask_id), process, x, order)
            for order in (rank, one_by_one.clamp(min=0))
        )
    return apart - together


def _measured(
    ngram: NGram,
    truth: NDArray[np.int64],
    filled: NDArray[np.int64],
    hidden: NDArray[np.bool_],
    apart: NDArray[np.float64],
    calls: float,
) -> Filled:
    nats = [-np.log(ngram.probs(row)[where]).sum() for row, where in zip(filled, hidden, strict=True)]
    right = ((filled == truth) & hidden).sum(1).astype(np.float64)
    return Filled(apart, np.array(nats), right, hidden.sum(1), calls)


def figures(parts: Iterable[Filled]) -> dict[str, Any]:
    """Figures per hidden token, with errors over rows."""
    found = list(parts)
    hidden = np.concatenate([part.hidden for part in found])

    def figure(name: str) -> Estimate:
        values = np.concatenate([getattr(part, name) for part in found])
        return per_unit(Scores(values, np.zeros(len(values)), hidden, 0), hidden)

    return {
        "conflict": asdict(bits(figure("conflict"))),
        "ngram": asdict(bits(figure("ngram"))),
        "right": asdict(figure("right")),
        "calls": round(float(np.mean([part.calls for part in found])), 2),
    }


# --------------------------------------------------------------------------------------------- commands


def main() -> None:
    """Run one of the two studies."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = parser.add_subparsers(dest="kind", required=True)
    for kind, steps, size in (("digits", (8, 16, 32, 64, 128, 256), 200), ("infill", (2, 4, 8, 16, 32, 64, 128), 128)):
        own = kinds.add_parser(kind)
        own.add_argument("model", help="a run or an exported model that does not see the time")
        own.add_argument("data", help="prepared data with its vocabulary")
        own.add_argument("--steps", type=int, nargs="+", default=steps)
        own.add_argument("--size", type=int, default=size, help="samples, or rows of text, per round")
        own.add_argument("--budget", type=float, default=60.0, help="seconds for all rounds")
        own.add_argument("--seed", type=int, default=0)
    kinds.choices["digits"].add_argument("--sheet", type=Path, help="write an image of some samples")
    given = parser.parse_args()
    study, common = Study.open(given.model, given.data), (given.steps, given.size, given.budget, given.seed)
    if given.kind == "digits":
        digits(study, *common, given.sheet)
    else:
        infill(study, *common)


if __name__ == "__main__":
    plainly(main)
