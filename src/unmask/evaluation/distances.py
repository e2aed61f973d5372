"""Distances between samples and data: Fréchet and kernel distance, precision and recall, MAUVE.

Only arithmetic on features [n, d] computed elsewhere; which features they are decides what a value may be called.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..mistakes import require

Features = NDArray[np.float64]


def frechet(a: Features, b: Features) -> float:
    """|μ_a − μ_b|² + tr(Σ_a + Σ_b − 2 (Σ_a Σ_b)^½): FID where the features are Inception's (Heusel et al., 2017)."""
    return frechet_from(a)(b)


def frechet_from(data: Features) -> Callable[[Features], float]:
    """The Fréchet distance of other features from these, whose moments are computed once.

    tr (Σ_a Σ_b)^½ is the sum of the singular values of Σ_a^½ Σ_b^½: no complex numbers, no failed roots.
    """
    _check(data, data)
    mean, root = data.mean(0), _root_of_covariance(data)

    def distance(samples: Features) -> float:
        _check(data, samples)
        other = _root_of_covariance(samples)
        cross = np.linalg.svd(root @ other, compute_uv=False).sum()
        centre = ((mean - samples.mean(0)) ** 2).sum()
        return max(0.0, float(centre + (root**2).sum() + (other**2).sum() - 2 * cross))  # rounding may go below

    return distance


def _root_of_covariance(x: Features) -> Features:
    values, vectors = np.linalg.eigh(np.atleast_2d(np.cov(x, rowvar=False)))
    found: Features = (vectors * np.sqrt(values.clip(min=0))) @ vectors.T
    return found


def kernel_distance(data: Features, samples: Features) -> tuple[float, float]:
    """KID (Bińkowski et al., 2018): the unbiased squared MMD of all pairs, and its standard error over samples.

    The error comes from the jackknife, which assumes independent samples. It covers other samples but not other data,
    so it is the one for comparing models on the same data. With two samples it is unknown (nan).
    """
    value, n = squared_mmd(data, samples), len(samples)
    if n == 2:
        return value, math.nan
    k = _kernel(samples, samples)
    pairs, towards = k.sum(1) - k.diagonal(), _kernel(samples, data).mean(1)
    # leave out one sample at a time: its pairs are gone from the rows and from the columns
    without = (pairs.sum() - 2 * pairs) / ((n - 1) * (n - 2)) - 2 * (towards.sum() - towards) / (n - 1)
    return value, float(np.sqrt((n - 1) * without.var()))


def squared_mmd(a: Features, b: Features) -> float:
    """The unbiased squared maximum mean discrepancy with the kernel (x·y/d + 1)³, from all pairs; 0 on average if both
    distributions are the same, so it may be negative.
    """
    _check(a, b)

    def within(x: Features) -> float:
        k = _kernel(x, x)
        return float((k.sum() - np.trace(k)) / (len(x) * (len(x) - 1)))

    return within(a) + within(b) - 2 * float(_kernel(a, b).mean())


def _kernel(x: Features, y: Features) -> Features:
    found: Features = (x @ y.T / x.shape[1] + 1) ** 3
    return found


def precision_recall(data: Features, samples: Features, *, neighbours: int = 3) -> tuple[float, float]:
    """Share of samples within the data's manifold, and of data within the samples' (Kynkäänniemi et al., 2019), both
    made of balls around each point that reach its k-th nearest neighbour.
    """
    return precision_recall_from(data, neighbours=neighbours)(samples)


def precision_recall_from(data: Features, *, neighbours: int = 3) -> Callable[[Features], tuple[float, float]]:
    """The same for several sets of samples: what depends on the data alone is computed once."""
    known = _radii(data, neighbours)

    def values(samples: Features) -> tuple[float, float]:
        _check(data, samples)
        apart = _distances(samples, data)
        within_data = (apart <= known[None]).any(1)
        within_samples = (apart <= _radii(samples, neighbours)[:, None]).any(0)
        return float(within_data.mean()), float(within_samples.mean())

    return values


def _radii(points: Features, neighbours: int) -> Features:
    """The distance of each point from its k-th nearest neighbour."""
    k = min(neighbours, len(points) - 1)
    found: Features = np.partition(_distances(points, points), k, axis=1)[:, k]
    return found


def _distances(a: Features, b: Features) -> Features:
    squared = (a**2).sum(1)[:, None] + (b**2).sum(1)[None] - 2 * a @ b.T
    found: Features = np.sqrt(squared.clip(min=0))
    return found


@dataclass(frozen=True)
class Mauve:
    """The area under the divergence frontier, over seeds of the clustering."""

    mean: float
    spread: float
    """Standard deviation over seeds."""


def mauve(
    data: Features, samples: Features, *, clusters: int | None = None, scale: float = 5.0, seeds: int = 5
) -> Mauve:
    """MAUVE (Pillutla et al., 2021): both sets are quantised together by k-means, then the area under the curve of
    exp(−c KL) against mixtures is taken. Features are scaled to length 1 and projected on the directions that hold 90 %
    of their variance, as in the published code. clusters: defaults to a tenth of the smaller set.
    """
    _check(data, samples)
    k = clusters or max(2, min(len(data), len(samples)) // 10)
    found = [_area(*_histograms(data, samples, k, seed), scale) for seed in range(seeds)]
    return Mauve(float(np.mean(found)), float(np.std(found, ddof=1)) if seeds > 1 else 0.0)


def _histograms(data: Features, samples: Features, clusters: int, seed: int) -> tuple[Features, Features]:
    both = _principal(np.concatenate([data, samples]))
    labels = _k_means(both, clusters, np.random.default_rng(seed))
    counts = [np.bincount(part, minlength=clusters) for part in (labels[: len(data)], labels[len(data) :])]
    first, second = (count / count.sum() for count in counts)
    return first, second


def _principal(x: Features, share: float = 0.9) -> Features:
    """Unit vectors in the principal directions that hold this share of their variance."""
    lengths = np.linalg.norm(x, axis=1, keepdims=True)
    unit = x / np.where(lengths > 0, lengths, 1)
    centred = unit - unit.mean(0)
    _, values, directions = np.linalg.svd(centred, full_matrices=False)
    held = (values**2).cumsum()
    kept = int((held < share * held[-1]).sum()) + 1
    found: Features = centred @ directions[:kept].T
    return found


def _k_means(x: Features, clusters: int, rng: np.random.Generator, rounds: int = 50) -> NDArray[np.int64]:
    centres = x[rng.choice(len(x), clusters, replace=False)]
    labels = np.zeros(len(x), dtype=np.int64)
    for _ in range(rounds):
        moved = _distances(x, centres).argmin(1)
        if (moved == labels).all():
            break
        labels = moved
        for i in range(clusters):
            if (labels == i).any():
                centres[i] = x[labels == i].mean(0)
    return labels


def _area(p: Features, q: Features, scale: float, points: int = 500) -> float:
    """Area below the curve (exp(−c KL(q|r)), exp(−c KL(p|r))), r = λp + (1−λ)q, λ in (0, 1), closed at both axes."""
    weight = np.linspace(0, 1, points + 2)[1:-1, None]
    mixture = weight * p + (1 - weight) * q
    x, y = (np.exp(-scale * _divergence(part, mixture)) for part in (q, p))
    x, y = np.concatenate([[1.0], x, [0.0]]), np.concatenate([[0.0], y, [1.0]])
    order = np.lexsort((-y, x))  # if both are alike all points lie at x = 1: the one on the axis comes last
    x, y = x[order], y[order]
    return float((np.diff(x) * (y[1:] + y[:-1]) / 2).sum())


def _divergence(p: Features, mixture: Features) -> Features:
    ratio = np.where(p > 0, p / np.where(mixture > 0, mixture, 1), 1)
    found: Features = (p * np.log(ratio)).sum(-1)
    return found


def _check(a: Features, b: Features) -> None:
    good = a.ndim == b.ndim == 2 and a.shape[1] == b.shape[1] and min(len(a), len(b)) >= 2
    got = f"{a.shape} and {b.shape}"
    require(good, "features do not match", got=got, allowed="[n, d] and [m, d], n and m >= 2", do="check them")
