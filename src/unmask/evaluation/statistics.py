"""Statistics of samples that need no model: variety, repetition, and validity."""

import math
from collections import Counter
from collections.abc import Hashable, Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..mistakes import require
from .checkers import Checker, forms
from .intervals import wilson


@dataclass(frozen=True)
class TextStatistics:
    """Statistics of a set of samples; report those of real data beside them."""

    entropy: float
    """Entropy of the token frequencies, bits per token: low if samples are repetitive."""
    distinct: float
    """Share of distinct 2-grams among all."""
    repeated: float
    """Share of tokens that continue a 4-gram already seen in the same sample."""


def statistics(samples: Sequence[Sequence[Hashable]]) -> TextStatistics:
    """Statistics of token sequences."""
    require(any(samples), "there are no samples", got="none", allowed="at least one token", do="sample first")
    counts = Counter(token for sample in samples for token in sample)
    shares = np.array(list(counts.values())) / sum(counts.values())
    return TextStatistics(float(-(shares * np.log2(shares)).sum()), _distinct(samples, 2), _repeated(samples, 4))


def frequencies(samples: Sequence[NDArray[Any]], vocab_size: int) -> NDArray[np.float64]:
    """The share of each token [V]."""
    counts = sum((np.bincount(row.ravel(), minlength=vocab_size) for row in samples), np.zeros(vocab_size))
    shares: NDArray[np.float64] = counts / max(1.0, counts.sum())
    return shares


def _grams(sample: Sequence[Hashable], n: int) -> list[tuple[Hashable, ...]]:
    return [tuple(sample[i : i + n]) for i in range(len(sample) - n + 1)]


def _distinct(samples: Sequence[Sequence[Hashable]], n: int) -> float:
    grams = [gram for sample in samples for gram in _grams(sample, n)]
    return len(set(grams)) / len(grams) if grams else math.nan


def _repeated(samples: Sequence[Sequence[Hashable]], n: int) -> float:
    grams = [_grams(sample, n) for sample in samples]
    total = sum(map(len, grams))
    return sum(len(g) - len(set(g)) for g in grams) / total if total else math.nan


@dataclass(frozen=True)
class Share:
    """A share of some samples."""

    value: float
    of: int
    """How many samples it is a share of."""

    @property
    def error(self) -> float:
        """Binomial: √(p(1 − p)/n) with one more of each kind in p, so that it is not 0 if all are alike."""
        if not self.of:
            return math.nan
        p = (self.value * self.of + 1) / (self.of + 2)
        return math.sqrt(p * (1 - p) / self.of)

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95 % interval."""
        return wilson(self.value, self.of) if self.of else (math.nan, math.nan)


def _share(part: int, of: int) -> Share:
    return Share(part / of if of else math.nan, of)


@dataclass(frozen=True)
class Validity:
    """Shares of samples that can be checked: molecules, brackets, sudokus."""

    valid: Share
    unique: Share
    """Distinct ones among the valid; falls with the number of samples, whatever the model."""
    novel: Share
    """Those among the distinct ones that are not in the training data."""


def validity(samples: Sequence[str], checker: Checker, known: Set[str] = frozenset()) -> Validity:
    """Check samples; `known`: the forms of the training data, by the same checker."""
    require(bool(samples), "there are no samples", got="none", allowed="at least one", do="sample first")
    good = forms(samples, checker)
    different = set(good)
    new = different - known
    return Validity(
        _share(len(good), len(samples)), _share(len(different), len(good)), _share(len(new), len(different))
    )
