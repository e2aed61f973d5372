"""The likelihood of a split, saved as it is computed: an interrupted evaluation resumes where it stopped.

RUN/evals/NAME/settings.json                  the settings that determine the results
RUN/evals/NAME/part-000000000-000000064.npz   scores of some sequences: the first, and the one after the last
RUN/evals/NAME.json, .md, .png                the result
RUN/evals/NAME-N-of-S.json, .md, .png         the result for only N of the split's S sequences

Sequences are scored in an order in which the first N are spread evenly over the split, so that a result for some of
them represents all, and more can be added later. Several ranks (`torchrun`) divide the parts among themselves and
share the run's folder.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..core import Estimator, fit_surprise
from ..data import Dataset, Split
from ..data.order import Indices
from ..data.vocabulary import Integers
from ..evaluation import Estimate, Scores, Sequences, bits, per_unit, perplexity, repeats_for, score
from ..evaluation.loss import LOGITS
from ..files import atomic_write, fingerprint, write_json
from ..mistakes import require
from ..training.world import ALONE, World
from .folder import EVALS, Facts, ModelFolder
from .model import Model, load
from .sampling import GRIDS

_PART = 64
"""Sequences per part."""
_PILOT = 32
"""Sequences from which the number of repeats is chosen."""
_ROWS = 64
"""Evaluations per batch."""
_FITTED = 48
"""Training sequences used to fit a control variate."""


@dataclass(frozen=True)
class Evaluation:
    """What to measure."""

    split: str = "test"
    """train, valid or test."""
    data: str | None = None
    """A folder of prepared data; None: the run's own."""
    sequences: int | None = None
    """Number of sequences, spread evenly over the split; None: all."""
    estimator: str = "exact-k"
    """exact-k, controlled or paper."""
    draws: int = 4
    """Evaluations in a group, spread over the time axis."""
    repeats: int = 4
    """Independent groups of draws."""
    target_error: float | None = None
    """Target Monte Carlo error in bits per token, which decides the repeats."""
    steps: int | None = None
    """Measure the bound of a sampler with this many steps; None: continuous time."""
    grid: str = "uniform"
    """Grid of these steps: uniform or cosine."""
    average: bool = True
    """Use the averaged weights rather than the raw ones."""
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("draws", 1), ("repeats", 2), ("sequences", 1), ("steps", 1)):
            value = getattr(self, name)
            good = value is None or value >= least
            require(good, f"{name} is too small", got=value, allowed=f">= {least}", do="raise it")
        known = ", ".join(GRIDS)
        require(self.grid in GRIDS, "unknown grid", got=self.grid, allowed=known, do="choose one of them")
        target = self.target_error
        good = target is None or target > 0
        require(good, "the target error is not positive", got=target, allowed="> 0 bits per token", do="use 0.005")


@dataclass(frozen=True)
class Result:
    """The results of an evaluation."""

    name: str
    settings: dict[str, Any]
    scores: Scores
    per_token: Estimate
    """In nats."""
    per_unit: dict[str, Estimate]
    """Nats per character and byte of text, per dimension of images and other numbers."""
    of: int
    """Number of sequences in the split."""

    def bits(self) -> dict[str, Estimate]:
        """Bits per unit, by the name of the unit."""
        return {unit: bits(figure) for unit, figure in {"token": self.per_token, **self.per_unit}.items()}

    def document(self) -> dict[str, Any]:
        """The result as JSON."""
        value, low, high = perplexity(self.per_token)
        return {
            **self.settings,
            "sequences": len(self.scores.nats),
            "of": self.of,
            "tokens": int(self.scores.tokens.sum()),
            "network_calls": self.scores.calls,
            "nats_per_token": asdict(self.per_token),
            **{f"bits_per_{unit}": asdict(figure) for unit, figure in self.bits().items()},
            "perplexity": {"value": value, "low": low, "high": high},
        }


Progress = Callable[[int, int], None]
"""(sequences done, total)."""


def evaluate(run: ModelFolder, wanted: Evaluation, progress: Progress | None = None, world: World = ALONE) -> Result:
    """The bound of a split under a run's model; finished parts are read, the others are computed."""
    device = torch.device("cuda", world.local) if torch.cuda.is_available() else torch.device("cpu")
    run = run.pinned(world)
    model = load(run, average=wanted.average, device=device)
    split = split_of(run, model, wanted)
    rows = rows_wanted(split, wanted, wanted.sequences)
    estimator = _estimator(run, model, wanted)
    if estimator.exact:  # nothing is drawn, so nothing is gained by drawing more
        wanted = replace(wanted, draws=1, repeats=2, target_error=None)
    if wanted.target_error is not None:
        wanted = _with_repeats(model, split, estimator, wanted, rows)
    settings = settings_of(run, wanted, split)
    name = f"{wanted.split}-{decided_by(settings)}"
    folder = run.results / EVALS / name
    if world.first:
        write_json(folder / "settings.json", settings)
    kept = _Kept(folder, model, split, estimator, wanted)
    scores = replace(kept.scores(rows, progress, world).in_order(rows), neighbours=split.running)
    units = {unit: per_unit(scores, counts) for unit, counts in _units(model, split, scores, np.sort(rows)).items()}
    name = of_some(name, len(rows), len(split))
    result = Result(name, settings, scores, per_unit(scores, scores.tokens), units, len(split))
    if world.first:
        write_json(run.results / EVALS / f"{name}.json", result.document())
    return result


@dataclass(frozen=True)
class _Kept:
    """Scores in files of some sequences each, computed where they are missing."""

    folder: Path
    model: Model
    split: Split
    estimator: Estimator
    wanted: Evaluation

    def scores(self, rows: Indices, progress: Progress | None, world: World) -> Scores:
        """Scores of these rows, in their order; every rank computes its own parts, and all ranks return all of them."""
        starts = range(0, len(rows), _PART)
        done = 0
        for start in starts[world.rank :: world.size]:
            for part in self._computed(rows, start):
                done += len(part.nats)
                if progress is not None:
                    progress(min(done * world.size, len(rows)), len(rows))
        world.barrier()  # all parts exist once all ranks are here
        return Scores.joined(part for start in starts for part in self._computed(rows, start))

    def _computed(self, rows: Indices, start: int) -> Iterator[Scores]:
        """A part read from its file, or computed batch by batch and then kept."""
        own = rows[start : start + _PART]
        path = self.folder / f"part-{start:09d}-{start + len(own):09d}.npz"
        if path.exists():
            with np.load(path, allow_pickle=False) as found:
                yield Scores(found["nats"], found["error"], found["tokens"], int(found["calls"]), found["content"])
            return
        batches = []
        for batch in _scores(self.model, self.split, self.estimator, self.wanted, own):
            batches.append(batch)
            yield batch
        with atomic_write(path) as file:
            np.savez(file, **vars(Scores.joined(batches)))


def _estimator(run: ModelFolder, model: Model, wanted: Evaluation) -> Estimator:
    """The estimator with this name; a control variate is fitted on sequences of the training split."""

    def fit(estimator: Estimator) -> Tensor:
        train = rows_of(dataset_of(run, None if run.own_data else wanted.data), model.facts, "train")
        (batch,) = batches(model, train, train.spread(_FITTED), _FITTED)
        return fit_surprise(
            model.network,
            batch.tokens,
            estimator,
            draws=8,
            valid=batch.valid,
            condition=batch.label,
            chunk=max(1, LOGITS // (8 * batch.tokens[0].numel() * model.network.vocab_size)),
        )

    steps = None if wanted.steps is None else GRIDS[wanted.grid](wanted.steps)
    return model.estimator(wanted.estimator, steps, fit)


def split_of(run: ModelFolder, model: Model, wanted: Evaluation) -> Split:
    """The data to measure; it must have the model's vocabulary."""
    dataset = dataset_of(run, wanted.data)
    same, own = dataset.vocabulary == model.vocabulary, repr(model.vocabulary)
    require(
        same,
        "the data and the model have different vocabularies",
        got=repr(dataset.vocabulary),
        allowed=f"the model's own {own}" if repr(dataset.vocabulary) == own else own,
        do=f"prepare it with --vocabulary {run.folder}",
    )
    return rows_of(dataset, model.facts, wanted.split)


def dataset_of(run: ModelFolder, given: str | None) -> Dataset:
    """The given data, or the run's own."""
    folder = given or run.own_data
    do = "add --data DIR"
    allowed = "a folder of prepared data with the model's vocabulary"
    require(folder is not None, "an exported model has no data of its own", got="no data", allowed=allowed, do=do)
    return Dataset(str(folder))


def rows_of(dataset: Dataset, facts: Facts, split: str) -> Split:
    """A split as the model reads it: running text is cut to the training length."""
    found: Split = dataset.split(split, None if dataset.manifest.rows else facts.shape[0])
    return found


def rows_wanted(split: Split, wanted: Evaluation, count: int | None) -> Indices:
    """`count` rows, spread evenly; None: all."""
    what = f"the split {wanted.split} is empty"
    require(len(split) > 0, what, got="no sequences", allowed="at least one", do="name another split")
    return split.spread(count)


def settings_of(run: ModelFolder, wanted: Evaluation, split: Split) -> dict[str, Any]:
    """What determines the results (except the number of sequences), and where the data was."""
    settings = asdict(wanted) | {"content": split.identity, "checkpoint": run.identity, "rows": "spread"}
    for name in ("sequences", "target_error"):
        settings.pop(name)
    return settings


def decided_by(settings: dict[str, Any]) -> str:
    """A name for results: the data is identified by its content, not by its path."""
    return fingerprint({name: value for name, value in settings.items() if name != "data"})


def of_some(name: str, count: int, of: int) -> str:
    """The name of a result: one for some sequences must not replace the one for all."""
    return name if count == of else f"{name}-{count}-of-{of}"


def _scores(model: Model, split: Split, estimator: Estimator, wanted: Evaluation, rows: Indices) -> Iterator[Scores]:
    yield from score(
        model.network,
        batches(model, split, rows, max(1, _ROWS // wanted.draws)),
        estimator,
        draws=wanted.draws,
        repeats=wanted.repeats,
        seed=wanted.seed,
    )


def batches(model: Model, split: Split, rows: Indices, size: int) -> Iterator[Sequences]:
    """Rows of a split on the model's device, at most `size` at a time."""
    for start in range(0, len(rows), size):
        yield Sequences.read(split, rows[start : start + size], model.device, labels=model.network.classes > 0)


def _with_repeats(model: Model, split: Split, estimator: Estimator, wanted: Evaluation, rows: Indices) -> Evaluation:
    """The evaluation with as many repeats as the target error needs, judged by a few sequences."""
    pilot = Scores.joined(_scores(model, split, estimator, wanted, rows[:_PILOT]))
    target = math.inf if wanted.target_error is None else wanted.target_error
    return replace(wanted, repeats=repeats_for(pilot, wanted.repeats, len(rows), target))


def _units(model: Model, split: Split, scores: Scores, rows: Indices) -> dict[str, NDArray[np.int64]]:
    """Characters and bytes of each sequence where the tokens are text, dimensions where they are numbers.

    A character that is cut counts for the sequence that holds its first byte, so that none counts twice.
    """
    if isinstance(model.vocabulary, Integers):
        return {"dimension": scores.tokens}
    texts = []
    for start in range(0, len(rows), _PART):
        batch = split.read(rows[start : start + _PART])
        valid = np.ones(batch.tokens.shape, dtype=bool) if batch.valid is None else batch.valid
        texts += [model.vocabulary.spelt(row[keep]) for row, keep in zip(batch.tokens, valid, strict=True)]
    sizes = {"character": [_characters(text) for text in texts], "byte": [len(text) for text in texts]}
    return {unit: np.array(counts) for unit, counts in sizes.items()}


def _characters(text: bytes) -> int:
    """The number of characters in UTF-8: bytes that are not continuation bytes (0b10……)."""
    return int((np.frombuffer(text, dtype=np.uint8) & 0xC0 != 0x80).sum())
