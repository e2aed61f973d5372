"""The error of anything that is computed from a set of samples."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..mistakes import require
from .likelihood import Z95

SampleSet = Sequence[Any] | NDArray[Any]


def jackknife(
    statistic: Callable[[Any], ArrayLike], samples: SampleSet, *, groups: int = 10
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """A statistic of n samples (a number, or several), and its standard error: √((n−m)/(mG) Σ_g (s_g − s̄)²), s_g
    without group g, which has m = ⌊n/G⌋ samples; what is left over is in all of them.

    For statistics that are biased by the number of samples, as Fréchet's distance or the share of different n-grams is:
    all s_g have the same bias, so it does not enter the error. Compare values of the same number of samples only.
    Samples are taken to be independent: classes in turn, or one after the other, are not.
    """
    count = len(samples)
    good = 2 <= groups <= count // 2
    require(good, "too few samples", got=f"{count} in {groups} groups", allowed=">= 2 each", do="sample more")
    size = count // groups
    number = np.arange(count) // size
    without = np.array([statistic(_part(samples, np.flatnonzero(number != group))) for group in range(groups)])
    return np.asarray(statistic(samples), dtype=float), np.sqrt((count - size) / size * without.var(axis=0))


def _part(samples: SampleSet, places: NDArray[np.intp]) -> Any:
    return samples[places] if isinstance(samples, np.ndarray) else [samples[place] for place in places]


def student95(freedom: int) -> float:
    """What 95 of 100 values of Student's law with so many degrees of freedom lie within, in standard errors.

    Exact for one and two, from three on within 1 %: expanded around the normal law (Abramowitz and Stegun, 26.7.5).
    """
    z, within = Z95, 0.95
    if freedom < 1:
        return math.inf
    if freedom <= 2:
        return math.tan(math.pi * within / 2) if freedom == 1 else within * math.sqrt(2 / (1 - within**2))
    terms = (z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96, (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return float(z + sum(term / freedom ** (i + 1) for i, term in enumerate(terms)))
