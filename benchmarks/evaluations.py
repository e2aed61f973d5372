"""Whole evaluations of small trained models, as a user would run them.

python -m benchmarks.evaluations split NAME RUN [DRAWS REPEATS]     every sequence of the test split
python -m benchmarks.evaluations choices NAME RUN FILE              every question of a file
"""

import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import tyro

from unmask.configs import to_json
from unmask.run import Run
from unmask.run.evaluate import Evaluation, evaluate
from unmask.run.zero_shot import choices

from .record import Record, command


def split(folder: str, draws: str = "2", repeats: str = "2") -> dict[str, Any]:
    """The bound of the test split."""
    return evaluate(Run.open(folder), Evaluation("test", draws=int(draws), repeats=int(repeats))).document()


def questions(folder: str, file: str) -> dict[str, Any]:
    """Accuracy with only the continuation hidden."""
    start = time.perf_counter()
    _, found = choices(Run.open(folder), Path(file), Evaluation(), whole=False, draws=16)
    each = (time.perf_counter() - start) / found.questions
    return asdict(found) | {"seconds_per_question": round(each, 4)}


KINDS: dict[str, Callable[..., dict[str, Any]]] = {"split": split, "choices": questions}


def main(kind: str, name: str, folder: str, *rest: tyro.conf.Positional[str]) -> None:
    """Evaluate, and record the result with the model's configuration."""
    record = Record(f"evaluation_{name}", seed=0)
    record.write(data=name, model=to_json(Run.open(folder).config), result=KINDS[kind](folder, *rest))


if __name__ == "__main__":
    command(main)
