"""Metrics of a set of samples. Each gives named values, to be reported beside those of real data.

No single value shows that samples are good: repetitive text has a low perplexity, so it is reported with the variety.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .checkers import Checker, forms
from .distances import Features, frechet_from, kernel_distance, mauve, precision_recall_from
from .features import Extractor
from .intervals import Z95, student95, wilson
from .judge import Judge
from .likelihood import Scores, per_unit, perplexity
from .ngram import NGram
from .resampling import SampleSet, jackknife
from .statistics import frequencies, statistics, validity

Ids = NDArray[Any]
_GROUPS, _LEAST = 20, 4
"""Groups of the jackknife: at most, and the fewest whose spread is meaningful."""
_SLOW = 10
"""Maximum number of groups for slow statistics."""
_ROUNDING = 1e-9
"""Errors up to this are rounding: all samples are alike."""


@dataclass(frozen=True)
class Samples:
    """Samples, or data to compare them with."""

    tokens: Sequence[Ids]
    """One row each, of any shape."""
    texts: Sequence[str]
    """The samples as text; empty if they are not text."""


@dataclass(frozen=True)
class Value:
    """A value with its 95 % interval, if there is one."""

    value: float
    low: float | None = None
    high: float | None = None

    @classmethod
    def with_error(cls, value: float, error: float) -> "Value":
        """A value with the interval of a normal error; none if the error is NaN."""
        if math.isnan(error):
            return cls(value)
        return cls(value, value - Z95 * error, value + Z95 * error)

    @classmethod
    def from_json(cls, document: dict[str, float | None]) -> "Value":
        """Rebuild a stored value, in which null stands for NaN (if all samples are empty)."""
        value = document["value"]
        return cls(math.nan if value is None else value, document["low"], document["high"])


SampleMetric = Callable[[Samples], dict[str, Value]]
"""Judges a set of samples."""


def variety(samples: Samples) -> dict[str, Value]:
    """Entropy of the token frequencies, distinct 2-grams, repeated 4-grams."""

    def values(rows: Sequence[list[int]]) -> tuple[float, ...]:
        if not any(rows):  # all but the samples that are left out may be empty
            return (math.nan,) * 3
        found = statistics(rows)
        return found.entropy, found.distinct, found.repeated

    kinds = {"unigram entropy, bits": number, "distinct 2-grams": share, "repeated 4-grams": share}
    return with_intervals(kinds, values, [row.ravel().tolist() for row in samples.tokens])


Kind = Callable[[float, float, int], Value]
"""(value, standard error, number of samples) → the value with its interval."""


def number(value: float, error: float, samples: int) -> Value:
    """A value of any size."""
    del samples
    return Value.with_error(value, error)


def distance(value: float, error: float, samples: int) -> Value:
    """A value that is never below 0, and neither is its interval."""
    found = number(value, error, samples)
    return found if found.low is None else Value(found.value, max(0.0, found.low), found.high)


def share(value: float, error: float, samples: int) -> Value:
    """A value p between 0 and 1: Wilson's interval of n trials that have this error, √(p(1 − p)/n). Where the error
    tells nothing (all samples alike, or p at 0 or 1), each sample is one trial, so that no interval is empty.
    """
    if math.isnan(error):
        return Value(value)
    told = error > _ROUNDING and 0 < value < 1
    return Value(value, *wilson(value, value * (1 - value) / error**2 if told else samples))


def with_intervals(
    kinds: Mapping[str, Kind], statistic: Callable[[Any], Sequence[float]], samples: SampleSet, groups: int = _GROUPS
) -> dict[str, Value]:
    """Several values of a set of samples, each with its interval over other sets of the same size: by the jackknife,
    with Student's t distribution for its few groups. Fewer than eight samples have no interval.
    """
    groups = min(groups, len(samples) // 2)
    if groups < _LEAST:
        return dict(zip(kinds, map(Value, statistic(samples)), strict=True))
    values, errors = jackknife(statistic, samples, groups=groups)
    wider = errors * (student95(groups - 1) / Z95)
    found = zip(kinds.items(), values.tolist(), wider.tolist(), strict=True)
    return {name: kind(value, error, len(samples)) for (name, kind), value, error in found}


def frequencies_near(tokens: Ids, vocab_size: int) -> SampleMetric:
    """Distance of the token frequencies from those of real tokens, ½ Σ |p − q|: 0 if equal, 1 with none in common.

    Its interval is too wide, by a third or so, if the frequencies are almost the same: |p − q| has a kink there.
    """
    real = frequencies([tokens], vocab_size)

    def apart(rows: Sequence[Ids]) -> tuple[float]:
        return (float(np.abs(frequencies(rows, vocab_size) - real).sum() / 2),)

    return lambda samples: with_intervals({"frequencies off by": share}, apart, samples.tokens)


def under_ngram(model: NGram) -> SampleMetric:
    """Perplexity per token under an n-gram model: needs no network, sees only short-range structure."""

    def judge(samples: Samples) -> dict[str, Value]:
        nats = np.array([-np.log(model.probs(row.ravel())).sum() for row in samples.tokens])
        sizes = np.array([row.size for row in samples.tokens])
        figure = per_unit(Scores(nats, np.zeros(len(nats)), sizes, 0), sizes)
        return {f"{model.order}-gram perplexity": Value(*perplexity(figure))}

    return judge


def under_judge(judge: Judge) -> SampleMetric:
    """Generative perplexity: that of the texts under a language model, per token of that model."""

    def perplexities(samples: Samples) -> dict[str, Value]:
        scores = judge.surprise(samples.texts)
        return {"generative perplexity": Value(*perplexity(per_unit(scores, scores.tokens)))}

    return perplexities


def mauve_by(judge: Judge, data: Samples) -> SampleMetric:
    """MAUVE against real texts with the judge's features; its interval is the spread over five clusterings."""
    real = judge.features(data.texts)

    def area(samples: Samples) -> dict[str, Value]:
        found = mauve(real, judge.features(samples.texts))
        return {"MAUVE": Value.with_error(found.mean, found.spread)}

    return area


def distances_by(extractor: Extractor, data: Samples) -> SampleMetric:
    """Distances of images from real ones."""
    real = _features(extractor, data)
    frechet_name, kernel_name = extractor.distances
    frechet, covered = frechet_from(real), precision_recall_from(real)

    def values(features: Features) -> tuple[float, ...]:
        return frechet(features), *covered(features)

    def distances(samples: Samples) -> dict[str, Value]:
        features = _features(extractor, samples)
        found = with_intervals({frechet_name: distance, "precision": share, "recall": share}, values, features, _SLOW)
        kernel = Value.with_error(*kernel_distance(real, features))
        return {frechet_name: found.pop(frechet_name), kernel_name: kernel, **found}

    return distances


def _features(extractor: Extractor, samples: Samples) -> Features:
    return extractor.of(np.stack(samples.tokens).astype(np.uint8))


def checked_by(checker: Checker, known: Iterable[str]) -> SampleMetric:
    """Shares of valid samples, of distinct ones among these, and of those that are not among `known` texts."""
    seen = set(forms(known, checker))

    def shares(samples: Samples) -> dict[str, Value]:
        found = validity(samples.texts, checker, seen)
        named = {"valid": found.valid, "unique": found.unique, "novel": found.novel}
        return {name: Value(each.value, *each.interval) for name, each in named.items()}

    return shares


def judged(samples: Samples, metrics: Sequence[SampleMetric]) -> dict[str, Value]:
    """The values of all metrics; those that are not finite (without any valid sample, say) are left out."""
    found = [pair for metric in metrics for pair in metric(samples).items()]
    return {name: value for name, value in found if math.isfinite(value.value)}
