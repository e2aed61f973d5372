"""Likelihoods with error bars: the NELBO of sequences, also in bits and as perplexity."""

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..core import (
    Controlled,
    Estimator,
    Process,
    at_steps,
    at_times,
    estimate_nelbo,
    low_variance,
    uniform_grid,
)
from ..core.bound import NelboFn
from ..data import Split
from ..data.order import Indices
from ..mistakes import fail, require
from .intervals import student95
from .loss import nelbo_in_chunks

Floats = NDArray[np.float64]
BLOCKS = 10
"""Number of blocks into which windows of running text are joined to estimate the error."""


@dataclass(frozen=True)
class Sequences:
    """Sequences to score, with their numbers within the data set."""

    tokens: Tensor
    """[B, ...]."""
    index: Tensor
    """Numbers of the sequences [B], which determine their random numbers."""
    valid: Tensor | None = None
    label: Tensor | None = None

    @classmethod
    def read(cls, split: Split, rows: Indices, device: torch.device, *, labels: bool) -> "Sequences":
        """Read rows of a split to a device, with their classes if `labels`."""
        found = split.read(rows)
        tokens, valid, label = (
            None if array is None else torch.from_numpy(array).to(device)
            for array in (found.tokens, found.valid, found.labels if labels else None)
        )
        return cls(tokens, torch.from_numpy(np.asarray(rows)).to(device), valid, label)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Scores:
    """−log p or a bound on it, one entry for each sequence."""

    nats: Floats
    error: Floats
    """Standard error of the Monte Carlo estimate; 0 where the value is exact."""
    tokens: NDArray[np.int64]
    """Number of tokens that count."""
    calls: int
    """Total number of network calls."""
    content: NDArray[np.uint64] = field(default_factory=lambda: np.zeros(0, dtype=np.uint64))
    """A hash of each sequence's tokens; empty if they are unknown."""
    neighbours: bool = False
    """Whether the sequences are windows of one running text, in its order: then they are not independent."""

    @classmethod
    def joined(cls, parts: Iterable["Scores"]) -> "Scores":
        """Join all parts, in their order."""
        found = list(parts)
        require(bool(found), "there is nothing to evaluate", got="no sequences", allowed="at least one", do="add data")
        nats, error, tokens, content = (np.concatenate([getattr(part, name) for part in found]) for name in _EACH)
        return cls(nats, error, tokens, sum(part.calls for part in found), content)

    def in_order(self, places: NDArray[np.int64]) -> "Scores":
        """Sort scores by the position of their sequences; places: the positions [S]."""
        order = np.argsort(places)
        return replace(self, **{name: getattr(self, name)[order] for name in _EACH})


_EACH = ("nats", "error", "tokens", "content")
"""Fields with an entry for each sequence."""


@dataclass(frozen=True)
class Estimate:
    """A mean per unit with its standard errors."""

    mean: float
    error: float
    """Over sequences: how much another sample of the data, and other random numbers, would change the mean."""
    monte_carlo: float
    """Due to the random numbers alone, given these sequences."""
    freedom: int
    """Degrees of freedom of the error, which is itself uncertain with few sequences or few blocks."""

    @property
    def interval(self) -> tuple[float, float]:
        """95 % confidence interval of the mean, by Student's t distribution."""
        half = student95(self.freedom) * self.error
        return self.mean - half, self.mean + half

    def scaled(self, factor: float) -> "Estimate":
        """The estimate in other units."""
        return Estimate(self.mean * factor, self.error * factor, self.monte_carlo * factor, self.freedom)


def per_unit(scores: Scores, units: NDArray[Any]) -> Estimate:
    """Nats per unit (token, character, byte), Σ nats / Σ units: the ratio's standard error by its residuals.

    For independent sequences these are r_i = nats − mean · units of each, and the error is √(Σ r_i² n/(n−1)) / Σ units.
    Neighbouring windows of a text are similar, so residuals are first summed within ten blocks: r_i is then a block's.
    """
    total = float(units.sum())
    require(total > 0, "there is nothing to divide by", got="no units", allowed="at least one", do="add data")
    mean = float(scores.nats.sum()) / total
    residual = scores.nats - mean * units
    if scores.neighbours:
        residual = _in_blocks(residual)
    count = len(residual)
    spread = math.sqrt(float((residual**2).sum()) * count / (count - 1)) if count > 1 else math.nan
    monte_carlo = math.sqrt(float((scores.error**2).sum()))
    return Estimate(mean, spread / total, monte_carlo / total, freedom=count - 1)


def _in_blocks(values: Floats) -> Floats:
    """Sums over blocks of neighbours, of sizes as equal as possible."""
    blocks = min(BLOCKS, len(values))
    starts = np.arange(blocks) * len(values) // blocks
    sums: Floats = np.add.reduceat(values, starts)
    return sums


def perplexity(nats_per_token: Estimate) -> tuple[float, float, float]:
    """exp of nats per token, and the ends of its 95 % interval."""
    low, high = nats_per_token.interval
    return math.exp(nats_per_token.mean), math.exp(low), math.exp(high)


def bits(nats: Estimate) -> Estimate:
    """Convert nats to bits."""
    return nats.scaled(1 / math.log(2))


# ----------------------------------------------------------------------------------------- estimators


Fit = Callable[[Estimator], Tensor]
"""Average cost of each token [V], measured by an estimator on other data: the baseline of a control variate."""


def _continuous(process: Process, fit: Fit | None) -> Estimator:
    del fit
    return low_variance(process)


def _controlled(process: Process, fit: Fit | None) -> Estimator:
    ours = _continuous(process, fit)
    if fit is None or process.schedule.per_token:
        got = "no training data" if fit is None else "a schedule for each token"
        allowed = "one schedule for all tokens, and training data to fit it on"
        fail("no control variate is available", got=got, allowed=allowed, do="use exact-k")
    return Controlled(ours, fit(ours), 1.0)


def _paper(process: Process, fit: Fit | None) -> Estimator:
    del fit
    return at_times(process)


ESTIMATORS: dict[str, Callable[[Process, Fit | None], Estimator]] = {
    "exact-k": _continuous,
    "controlled": _controlled,
    "paper": _paper,
}
"""By name: stratified exact-k with k^-½ (the default), the same with a control variate, and the paper's low-discrepancy
times with independent masks.
"""
DEFAULT = "exact-k"

Taken = Tensor | int
"""The steps of a sampler: a grid, or a number of steps on the uniform grid."""


def time_grid(steps: Taken) -> Tensor:
    """The times of these steps."""
    return uniform_grid(steps) if isinstance(steps, int) else steps


def estimator_for(
    process: Process, name: str = DEFAULT, steps: Taken | None = None, fit: Fit | None = None
) -> Estimator:
    """The estimator with this name in continuous time or, with `steps`, of the bound of a sampler that takes these."""
    if steps is not None:
        do = "leave the estimator out, or the steps"
        require(name == DEFAULT, "steps have their own estimator", got=name, allowed=DEFAULT, do=do)
        return at_steps(process, time_grid(steps))
    if name not in ESTIMATORS:
        fail("unknown estimator", got=name, allowed=", ".join(ESTIMATORS), do="choose one of them")
    return ESTIMATORS[name](process, fit)


# ---------------------------------------------------------------------------------------------- scores


def score(
    denoiser: Any,
    batches: Iterable[Sequences],
    estimator: Estimator,
    *,
    draws: int = 4,
    repeats: int = 4,
    seed: int = 0,
    nelbo_fn: NelboFn = nelbo_in_chunks,
) -> Iterator[Scores]:
    """The bound of every sequence, batch by batch, from `repeats` groups of `draws` evaluations each.

    A denoiser that is a mere function, without features and a head, needs `nelbo_fn=nelbo_at_once`.
    """
    for batch in batches:
        found = estimate_nelbo(
            denoiser,
            batch.tokens,
            estimator,
            draws=draws,
            repeats=repeats,
            seed=seed,
            index=batch.index,
            valid=batch.valid,
            condition=batch.label,
            nelbo_fn=nelbo_fn,
        )
        everything = batch.tokens[0].numel()
        counts = torch.full((len(batch.tokens),), everything) if batch.valid is None else batch.valid.flatten(1).sum(1)
        yield Scores(
            found.mean.double().cpu().numpy(),
            found.standard_error.double().cpu().numpy(),
            counts.cpu().numpy(),
            len(batch.tokens) * draws * repeats,
            _content(batch),
        )


def _content(batch: Sequences) -> NDArray[np.uint64]:
    """Hashes of the tokens that count, whatever their dtype and padding."""
    rows = batch.tokens.long().cpu().numpy()
    valid = np.ones(rows.shape, dtype=bool) if batch.valid is None else batch.valid.cpu().numpy()
    kept = (row[keep].tobytes() for row, keep in zip(rows, valid, strict=True))
    return np.array([int.from_bytes(hashlib.blake2b(row, digest_size=8).digest()) for row in kept], dtype=np.uint64)


def repeats_for(pilot: Scores, repeats: int, sequences: int, target: float) -> int:
    """How many groups of draws bring the Monte Carlo error of the mean, in bits per token, down to the target."""
    require(target > 0, "the target error is not positive", got=target, allowed="> 0 bits per token", do="use 0.005")
    one_group = math.sqrt(float((pilot.error**2).mean()) * repeats)  # nats per sequence, of a single group
    per_token = one_group / float(pilot.tokens.mean()) / math.log(2)
    return max(2, math.ceil((per_token / target) ** 2 / sequences))


@dataclass(frozen=True)
class Difference:
    """Model A minus model B on the same sequences and the same masks, in bits per token."""

    mean: float
    error: float
    unpaired_error: float
    """What the error would be if the two were scored independently."""
    freedom: int
    """Degrees of freedom of the error."""


def compare(a: Scores, b: Scores) -> Difference:
    """The paired difference, in which the difficulty of a sequence or of a mask cancels."""
    same = np.array_equal(a.tokens, b.tokens) and np.array_equal(a.content, b.content)
    got = f"{len(a.nats)} and {len(b.nats)} sequences that are not the same"
    do = "score them on the same split of the same data"
    require(same, "the models were scored on different sequences", got=got, allowed="the same", do=do)
    paired = replace(a, nats=a.nats - b.nats, error=np.hypot(a.error, b.error))
    difference, apart = bits(per_unit(paired, a.tokens)), [bits(per_unit(one, one.tokens)).error for one in (a, b)]
    return Difference(difference.mean, difference.error, math.hypot(*apart), difference.freedom)
