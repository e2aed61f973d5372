"""The error of anything that is computed from a set of samples."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Set = Sequence[Any] | NDArray[Any]
"""Samples, one after the other."""
GROUPS = 20
"""Left out one at a time; with so many, 95 % intervals of a normal law hold the truth in 93 to 94 of 100 cases."""


def jackknife(statistic: Callable[[Any], ArrayLike], samples: Set, *, groups: int = GROUPS) -> tuple[Any, Any]:
    """A statistic of samples (a number, or several), and its standard error: √((G−1)/G Σ_g (s_g − s̄)²), s_g without
    group g.

    For statistics that are biased by the number of samples, as Fréchet's distance or the share of different n-grams is:
    all s_g have the same bias, so it does not enter the error. Compare values of the same number of samples only.
    Samples are taken to be independent: classes in turn, or one after the other, are not. Groups have two samples at
    least, so fewer than four have no error (nan).
    """
    count = len(samples)
    groups = min(groups, count // 2)
    value = np.asarray(statistic(samples), dtype=float)
    if groups < 2:
        return value[()], np.full_like(value, math.nan)[()]
    number = np.arange(count) * groups // count
    without = np.array([statistic(_part(samples, np.flatnonzero(number != group))) for group in range(groups)])
    return value[()], np.sqrt((groups - 1) * without.var(axis=0))[()]


def _part(samples: Set, places: NDArray[np.intp]) -> Any:
    return samples[places] if isinstance(samples, np.ndarray) else [samples[place] for place in places]
