"""Ways to judge a set of samples. Each gives named values; those of real data belong beside them.

No value alone says that samples are good: a text that repeats itself has a low perplexity, so variety stands beside it.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .checkers import Checker
from .distances import Features, frechet, kernel_distance, mauve, precision_recall
from .features import Extractor
from .judge import Judge
from .likelihood import Z95, Scores, per_unit, perplexity
from .ngram import NGram
from .statistics import frequencies, statistics, validity

Ids = NDArray[Any]


@dataclass(frozen=True)
class Samples:
    """Samples, or data to compare them with."""

    tokens: Sequence[Ids]
    """One row each, of any shape."""
    texts: Sequence[str]
    """What they mean; empty where they are not text."""


@dataclass(frozen=True)
class Value:
    """A figure, with its 95 % interval where there is one."""

    value: float
    low: float | None = None
    high: float | None = None

    @classmethod
    def with_error(cls, value: float, error: float) -> "Value":
        """The interval of a normal error, if there is one."""
        if math.isnan(error):
            return cls(value)
        return cls(value, value - Z95 * error, value + Z95 * error)


Yardstick = Callable[[Samples], dict[str, Value]]
"""Judges a set of samples."""


def variety(samples: Samples) -> dict[str, Value]:
    """Entropy of the tokens' frequencies, different 2-grams, repeated 4-grams."""
    found = statistics([row.ravel().tolist() for row in samples.tokens])
    return {
        "unigram entropy, bits": Value.with_error(found.entropy, found.entropy_error),
        "distinct 2-grams": Value(found.distinct[2]),
        "repeated 4-grams": Value(found.repeated),
    }


def frequencies_near(tokens: Ids, vocab_size: int) -> Yardstick:
    """Distance of the tokens' frequencies from those of real tokens, ½ Σ |p − q|: 0 the same, 1 none in common."""
    real = frequencies([tokens], vocab_size)

    def distance(samples: Samples) -> dict[str, Value]:
        apart = np.abs(frequencies(samples.tokens, vocab_size) - real).sum() / 2
        return {"frequencies off by": Value(float(apart))}

    return distance


def under_ngram(model: NGram) -> Yardstick:
    """Perplexity per token under a model of counts: needs no network, sees only short order."""

    def judge(samples: Samples) -> dict[str, Value]:
        nats = np.array([-np.log(model.probs(row.ravel())).sum() for row in samples.tokens])
        sizes = np.array([row.size for row in samples.tokens])
        figure = per_unit(Scores(nats, np.zeros(len(nats)), sizes, 0), sizes)
        return {f"{model.order}-gram perplexity": Value(*perplexity(figure))}

    return judge


def under_judge(judge: Judge) -> Yardstick:
    """Generative perplexity: of the texts under a language model, per token of that model."""

    def perplexities(samples: Samples) -> dict[str, Value]:
        scores = judge.surprise(samples.texts)
        return {"generative perplexity": Value(*perplexity(per_unit(scores, scores.tokens)))}

    return perplexities


def mauve_by(judge: Judge, data: Samples) -> Yardstick:
    """MAUVE against real texts with the judge's features; its interval is the spread over five clusterings."""
    real = judge.features(data.texts)

    def area(samples: Samples) -> dict[str, Value]:
        found = mauve(real, judge.features(samples.texts))
        return {"MAUVE": Value.with_error(found.mean, found.spread)}

    return area


def distances_by(extractor: Extractor, data: Samples) -> Yardstick:
    """How far pictures are from real ones."""
    real = _features(extractor, data)
    frechet_name, kernel_name = extractor.distances

    def distances(samples: Samples) -> dict[str, Value]:
        features = _features(extractor, samples)
        precision, recall = precision_recall(real, features)
        return {
            frechet_name: Value(frechet(real, features)),
            kernel_name: Value.with_error(*kernel_distance(real, features)),
            "precision": Value(precision),
            "recall": Value(recall),
        }

    return distances


def _features(extractor: Extractor, samples: Samples) -> Features:
    return extractor.of(np.stack(samples.tokens).astype(np.uint8))


def checked_by(checker: Checker, known: Iterable[str]) -> Yardstick:
    """Shares of valid samples, of different ones among them, and of new ones among those."""
    seen = set(known)

    def shares(samples: Samples) -> dict[str, Value]:
        found = validity(samples.texts, checker.check, seen, checker.form)
        named = {"valid": found.valid, "unique": found.unique, "novel": found.novel}
        return {name: Value(share.value, *share.interval) for name, share in named.items()}

    return shares


def judged(samples: Samples, yardsticks: Sequence[Yardstick]) -> dict[str, Value]:
    """By all of them; what is not a number (no valid sample, say) is left out."""
    found = [pair for yardstick in yardsticks for pair in yardstick(samples).items()]
    return {name: value for name, value in found if math.isfinite(value.value)}
