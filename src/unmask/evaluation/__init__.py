"""Evaluation: likelihoods with error bars, exact chain rules, and what a figure is compared with."""

from .chain import ORDERS, Interval, chain_rule, order_bounds
from .choices import Accuracy, Answered, Question, accuracy, answer, read_questions
from .distances import Mauve, frechet, kernel_distance, mauve, precision_recall
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
from .protocols import DETOKENISERS, PROTOCOLS, Protocol, find_detokeniser, find_protocol
from .sets import SETS, Form, HubText, TextFile, TextSet, find_text
from .statistics import TextStatistics, Validity, balanced_brackets, statistics, validity
from .surprise import surprise

__all__ = [
    "DETOKENISERS",
    "ESTIMATORS",
    "ORDERS",
    "PROTOCOLS",
    "SETS",
    "Accuracy",
    "Answered",
    "Difference",
    "Figure",
    "Form",
    "HubText",
    "Interval",
    "Mauve",
    "NGram",
    "Protocol",
    "Question",
    "Scores",
    "Sequences",
    "TextFile",
    "TextSet",
    "TextStatistics",
    "Validity",
    "accuracy",
    "answer",
    "balanced_brackets",
    "bits",
    "chain_rule",
    "compare",
    "estimator_for",
    "find_detokeniser",
    "find_protocol",
    "find_text",
    "frechet",
    "kernel_distance",
    "mauve",
    "order_bounds",
    "per_unit",
    "perplexity",
    "precision_recall",
    "read_questions",
    "repeats_for",
    "score",
    "statistics",
    "surprise",
    "validity",
]
