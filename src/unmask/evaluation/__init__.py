"""Evaluation: likelihoods with error bars, exact chain rules, and what a figure is compared with."""

from .chain import ORDERS, Interval, chain_rule, order_bounds
from .likelihood import (
    ESTIMATORS,
    Difference,
    Figure,
    Scores,
    Sequences,
    bits,
    compare,
    estimator_for,
    per_unit,
    perplexity,
    repeats_for,
    score,
)
from .ngram import NGram
from .surprise import surprise

__all__ = [
    "ESTIMATORS",
    "ORDERS",
    "Difference",
    "Figure",
    "Interval",
    "NGram",
    "Scores",
    "Sequences",
    "bits",
    "chain_rule",
    "compare",
    "estimator_for",
    "order_bounds",
    "per_unit",
    "perplexity",
    "repeats_for",
    "score",
    "surprise",
]
