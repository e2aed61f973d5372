"""The standard error of any statistic of a set of samples."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..mistakes import require

SampleSet = Sequence[Any] | NDArray[Any]


def jackknife(
    statistic: Callable[[Any], ArrayLike], samples: SampleSet, *, groups: int = 10
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """A statistic of n samples (a number, or several), and its standard error: √((n−m)/(mG) Σ_g (s_g − s̄)²), s_g
    without group g, which has m = ⌊n/G⌋ samples; leftover samples are in all of them.

    Suits statistics with a bias that depends on the number of samples, such as the Fréchet distance or the share of
    distinct n-grams: all s_g have the same bias, so it does not enter the error. Only compare values from equally many
    samples. Samples must be independent, which those that cycle through classes, or are sorted by class, are not.
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
