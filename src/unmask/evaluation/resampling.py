"""The error of anything that is computed from a set of samples."""

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
