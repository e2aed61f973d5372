"""Measures a trained text model: held-out text, samplers with T steps, other kinds of text, multiple choice.

    python -m benchmarks.text_figures NAME RUN SETS --sets wikitext2 ptb lambada --questions hellaswag_val.jsonl.xz

SETS is a folder with a file for each set, as `unmask eval --text NAME --sets SETS` reads it, and the file of questions.
"""

import argparse
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from unmask.configs import to_json
from unmask.evaluation import find_text
from unmask.run import Run
from unmask.run.evaluate import Evaluation, evaluate
from unmask.run.zero_shot import ZeroShot, ZeroShots, choices

from .record import Record


def bounds(run: Run, how: Evaluation, steps: list[int]) -> list[dict[str, Any]]:
    """Bounds on held-out text: in continuous time, and for samplers with these numbers of steps."""
    return [evaluate(run, replace(how, steps=t)).document() | {"data": None} for t in (None, *steps)]


def other_texts(run: Run, how: Evaluation, names: list[str], folder: Path) -> list[dict[str, Any]]:
    """Bounds on sets that the model was not trained on, by the protocol of SEDD."""
    measured = ZeroShots(run, how)
    return [measured.measure(ZeroShot(find_text(name, folder)))[1] for name in names]


def questions(run: Run, file: Path, many: int, draws: int) -> dict[str, Any]:
    """Accuracy on this many questions, with only the continuation hidden."""
    start = time.perf_counter()
    _, found = choices(run, file, Evaluation(sequences=many), whole=False, draws=draws)
    each = (time.perf_counter() - start) / found.questions
    return asdict(found) | {"file": file.name, "seconds_per_question": round(each, 4)}


def main() -> None:
    """Measure and record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name")
    parser.add_argument("run")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sets", nargs="+", default=["wikitext2", "ptb", "lambada"])
    parser.add_argument("--steps", type=int, nargs="+", default=[100, 1000, 10_000])
    parser.add_argument("--questions", help="a file in the folder (default: ask no questions)")
    parser.add_argument("--many", type=int, default=2000, help="number of questions")
    parser.add_argument("--draws", type=int, default=8)
    options = parser.parse_args()
    run, how = Run.open(options.run), Evaluation("test", draws=options.draws, repeats=2)
    record = Record(options.name, seed=0)
    asked = options.folder / options.questions if options.questions else None
    record.write(
        model=to_json(replace(run.config, data=Path(run.config.data).name)),
        held_out=bounds(run, how, options.steps),
        zero_shot=other_texts(run, how, options.sets, options.folder),
        questions=questions(run, asked, options.many, options.draws) if asked else None,
    )


if __name__ == "__main__":
    main()
