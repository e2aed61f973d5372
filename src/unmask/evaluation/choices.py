"""Multiple choice: the ending that the model finds most likely.

whole           question and ending are filled up to the model's length, all of it is hidden and scored, 32 draws: how
                the paper scores HellaSwag
continuation    only the ending is hidden, the question always visible; every number of hidden tokens alike (stratified
                exact-k), and the same random numbers for all endings of a question
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..core import Estimator
from ..core.bound import Charge
from ..data.files import open_bytes
from ..data.vocabulary import Vocabulary
from ..mistakes import fail, require
from .continuation import Row, by_length, cost, ids

_ROWS = 256
"""Evaluations at once."""


@dataclass(frozen=True)
class Question:
    """A beginning, its possible endings, and which is right."""

    context: str
    endings: tuple[str, ...]
    answer: int


@dataclass(frozen=True)
class Answered:
    """What a question's endings cost, nats, and their lengths in bytes."""

    nats: tuple[float, ...]
    sizes: tuple[int, ...]
    answer: int

    @property
    def right(self) -> bool:
        """By the likelihood of the ending."""
        return int(np.argmin(self.nats)) == self.answer

    @property
    def right_per_byte(self) -> bool:
        """By the likelihood per byte, which does not favour short endings."""
        return int(np.argmin(np.array(self.nats) / np.array(self.sizes))) == self.answer


def read_questions(path: Path) -> Iterator[Question]:
    """From JSON lines: HellaSwag's own (ctx, endings, label), or question / choices / answer."""
    with open_bytes(path) as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                yield _question(line.decode(), path, number)


def _question(line: str, path: Path, number: int) -> Question:
    names = (("ctx", "endings", "label"), ("question", "choices", "answer"))
    try:
        record: dict[str, Any] = json.loads(line)
        context, endings, answer = next(
            tuple(record[name] for name in trio) for trio in names if all(name in record for name in trio)
        )
        found = Question(str(context), tuple(map(str, endings)), int(answer))
        found.endings[found.answer]  # there is such an ending
        return found
    except (StopIteration, ValueError, TypeError, IndexError):
        fail(
            f"line {number} of {path} is not a question",
            got=line.strip()[:80],
            allowed="ctx, endings, label or question, choices, answer",
            do="check the file",
        )


def answer(
    denoiser: Any,
    questions: Iterable[Question],
    estimator: Estimator,
    vocabulary: Vocabulary,
    *,
    length: int,
    draws: int = 32,
    seed: int = 0,
    whole: bool = False,
    charge: Charge,
) -> Iterator[Answered]:
    """The cost of every ending, whatever the others are. `whole`: of the question too, as the paper does."""

    def nats(rows: list[Row]) -> Tensor:
        return cost(denoiser, rows, estimator, draws=draws, seed=seed, charge=charge)

    asked = list(questions)
    rows = [_row(one.context, ending, vocabulary, length, whole) for one in asked for ending in one.endings]
    found = iter(by_length(rows, max(1, _ROWS // draws), nats))  # endings of all questions together fill the batches
    for question in asked:
        sizes = tuple(max(1, len(ending.encode())) for ending in question.endings)
        yield Answered(tuple(next(found) for _ in sizes), sizes, question.answer)


def _row(context: str, ending: str, vocabulary: Vocabulary, length: int, whole: bool) -> Row:
    """Tokens of context and ending, at most `length` of them (the context loses its beginning); `whole`: filled up to
    `length`, and everything hidden.
    """
    first, second = ids(context, vocabulary), ids(" " + ending.lstrip(), vocabulary)
    tokens = torch.cat([first, second])[-length:]
    if whole:
        return Row(torch.cat([tokens, torch.full((length - len(tokens),), vocabulary.eos_id or 0)]), 0)
    return Row(tokens, max(0, len(tokens) - len(second)))


@dataclass(frozen=True)
class Accuracy:
    """Share of questions answered rightly, with its standard error."""

    questions: int
    accuracy: float
    error: float
    accuracy_per_byte: float
    error_per_byte: float


def accuracy(answers: Iterable[Answered]) -> Accuracy:
    """Over all questions."""
    found = list(answers)
    require(bool(found), "there are no questions", got="none", allowed="at least one", do="check the file")
    rates = [float(np.mean([getattr(a, name) for a in found])) for name in ("right", "right_per_byte")]
    errors = [(rate * (1 - rate) / len(found)) ** 0.5 for rate in rates]
    return Accuracy(len(found), rates[0], errors[0], rates[1], errors[1])
