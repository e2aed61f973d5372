"""Evaluation: likelihoods with error bars, exact chain rules, and metrics of samples."""

from .chain import ORDERS, Interval, chain_rule, in_groups, order_bounds
from .checkers import CHECKERS, Checker, balanced_brackets, find_checker, forms, if_valid, solved_sudoku
from .choices import Accuracy, Answered, Question, accuracy, answer, read_questions
from .codec import Coder, Reader, Writer, passed, random_ranks
from .distances import Mauve, frechet, kernel_distance, mauve, precision_recall, squared_mmd
from .features import Extractor, extractor
from .judge import Judge
from .likelihood import (
    ESTIMATORS,
    Difference,
    Estimate,
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
from .loss import Loss, masked_loss, nelbo_in_chunks
from .ngram import NGram
from .protocols import DETOKENISERS, PROTOCOLS, Protocol, find_detokeniser, find_protocol
from .resampling import jackknife
from .sets import SETS, Form, HubText, TextFile, TextSet, find_text
from .statistics import Share, TextStatistics, Validity, frequencies, statistics, validity
from .surprise import surprise

__all__ = [
    "CHECKERS",
    "DETOKENISERS",
    "ESTIMATORS",
    "ORDERS",
    "PROTOCOLS",
    "SETS",
    "Accuracy",
    "Answered",
    "Checker",
    "Coder",
    "Difference",
    "Estimate",
    "Extractor",
    "Form",
    "HubText",
    "Interval",
    "Judge",
    "Loss",
    "Mauve",
    "NGram",
    "Protocol",
    "Question",
    "Reader",
    "Scores",
    "Sequences",
    "Share",
    "TextFile",
    "TextSet",
    "TextStatistics",
    "Validity",
    "Writer",
    "accuracy",
    "answer",
    "balanced_brackets",
    "bits",
    "chain_rule",
    "compare",
    "estimator_for",
    "extractor",
    "find_checker",
    "find_detokeniser",
    "find_protocol",
    "find_text",
    "forms",
    "frechet",
    "frequencies",
    "if_valid",
    "in_groups",
    "jackknife",
    "kernel_distance",
    "masked_loss",
    "mauve",
    "nelbo_in_chunks",
    "order_bounds",
    "passed",
    "per_unit",
    "perplexity",
    "precision_recall",
    "random_ranks",
    "read_questions",
    "repeats_for",
    "score",
    "solved_sudoku",
    "squared_mmd",
    "statistics",
    "surprise",
    "validity",
]
