"""Multiple choice: the ending that the model finds most likely.

whole           question and ending are padded to the model's length, all of it is hidden and scored, 32 draws: how the
                paper scores HellaSwag
continuation    only the ending is hidden, the question is always visible

The endings of a question share their random numbers; different questions do not, so their errors are independent.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..core import Estimator
from ..data.files import json_lines
from ..data.vocabulary import Vocabulary
from ..mistakes import fail, require
from ..networks import Network
from .continuation import Row, by_length, cost, ids
from .statistics import Share

_ROWS = 256
"""Evaluations per batch."""


@dataclass(frozen=True)
class Question:
    """A context, its possible endings, and which of them is right."""

    context: str
    endings: tuple[str, ...]
    answer: int


@dataclass(frozen=True)
class Answered:
    """The cost of a question's endings in nats, and their lengths in bytes."""

    nats: tuple[float, ...]
    sizes: tuple[int, ...] | None
    """None if the nats include the question: the cost per byte of the ending is then unknown."""
    answer: int

    @property
    def right(self) -> bool:
        """Whether the choice by likelihood is right."""
        return int(np.argmin(self.nats)) == self.answer

    @property
    def right_per_byte(self) -> bool | None:
        """Whether the choice by likelihood per byte, which does not favour short endings, is right."""
        return None if self.sizes is None else int(np.argmin(np.divide(self.nats, self.sizes))) == self.answer


def read_questions(path: Path) -> Iterator[Question]:
    """Read questions from JSON lines: HellaSwag's own (ctx, endings, label), or question / choices / answer."""
    return (_question(record, f"line {number} of {path}") for number, record in json_lines(path))


def _question(record: dict[str, Any], where: str) -> Question:
    names = (("ctx", "endings", "label"), ("question", "choices", "answer"))
    try:
        context, endings, answer = next(
            tuple(record[name] for name in trio) for trio in names if all(name in record for name in trio)
        )
        found = Question(str(context), tuple(map(str, endings)), int(answer))
        if not 0 <= found.answer < len(found.endings):
            raise IndexError("no such ending")
        return found
    except (StopIteration, ValueError, TypeError, IndexError):
        fail(
            f"{where} is not a question",
            got=str(record)[:80],
            allowed="ctx, endings, label or question, choices, answer",
            do="check the file",
        )


def answer(
    network: Network,
    questions: Mapping[int, Question],
    estimator: Estimator,
    vocabulary: Vocabulary,
    *,
    length: int,
    draws: int = 32,
    seed: int = 0,
    whole: bool = False,
) -> Iterator[Answered]:
    """The cost of every ending, whatever the others are; the number of a question decides its random numbers. `whole`:
    include the question, as the paper does.
    """

    def nats(rows: list[Row]) -> Tensor:
        return cost(network, rows, estimator, draws=draws, seed=seed)

    rows = [
        _row(one.context, ending, vocabulary, length, whole, number)
        for number, one in questions.items()
        for ending in one.endings
    ]
    found = iter(by_length(rows, max(1, _ROWS // draws), nats))  # endings of all questions together fill the batches
    for question in questions.values():
        sizes = tuple(max(1, len(ending.encode())) for ending in question.endings)
        yield Answered(tuple(next(found) for _ in sizes), None if whole else sizes, question.answer)


def _row(context: str, ending: str, vocabulary: Vocabulary, length: int, whole: bool, number: int = 0) -> Row:
    """Tokens of context and ending, at most `length` of them (the context is cut at its beginning); `whole`: padded to
    `length`, with everything hidden.
    """
    first, second = ids(context, vocabulary), ids(" " + ending.lstrip(), vocabulary)
    tokens = torch.cat([first, second])[-length:]
    if whole:
        return Row(torch.cat([tokens, torch.full((length - len(tokens),), vocabulary.fill_id)]), 0, number)
    return Row(tokens, max(0, len(tokens) - len(second)), number)


@dataclass(frozen=True)
class Accuracy:
    """Share of questions answered correctly, with its standard error."""

    questions: int
    accuracy: float
    error: float
    accuracy_per_byte: float | None
    """None if questions were scored with their endings."""
    error_per_byte: float | None


def accuracy(answers: Iterable[Answered]) -> Accuracy:
    """Accuracy over all questions."""
    found = list(answers)
    require(bool(found), "there are no questions", got="none", allowed="at least one", do="check the file")
    per_byte = [one.right_per_byte for one in found if one.right_per_byte is not None]
    by_byte = _rate(per_byte) if len(per_byte) == len(found) else (None, None)
    return Accuracy(len(found), *_rate([one.right for one in found]), *by_byte)


def _rate(right: list[bool]) -> tuple[float, float]:
    """The share of right answers, and its error."""
    share = Share(float(np.mean(right)), len(right))
    return share.value, share.error
