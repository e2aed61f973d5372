"""Records a training that is done: how long it took, and the bound of held-out data.

    python -m benchmarks.finished NAME RUN --trained "unmask train PRESET --out RUN" [--split test] [--draws 2]

The time of training is that of its steps, summed; those before everything was compiled (after every start) are told
apart.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from unmask.configs import to_json
from unmask.run import Run
from unmask.run.evaluate import Evaluation, evaluate

from .record import Record

SLOW = 5
"""A step that takes so many times the median was compiled, or waited for something; there are few."""


def times(metrics: list[dict[str, Any]]) -> dict[str, Any]:
    """Seconds of the steps, and of those that took much longer than the others."""
    seconds = np.array([line["seconds"] for line in metrics])
    usual = seconds <= SLOW * np.median(seconds)
    return {
        "steps": len(metrics),
        "tokens": int(sum(line["tokens"] for line in metrics)),
        "training_s": round(float(seconds[usual].sum() + (~usual).sum() * np.median(seconds)), 1),
        "compile_s": round(float((seconds[~usual] - np.median(seconds)).sum()), 1),
        "ms_per_step": round(1000 * float(np.median(seconds)), 2),
    }


def validations(metrics: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The held-out bound as training went on."""
    return [{"step": line["step"], **line["validation"]} for line in metrics if "validation" in line]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--trained", required=True, help="the command that trained it")
    parser.add_argument("--split", default="test")
    parser.add_argument("--draws", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=2)
    options = parser.parse_args()
    run = Run.open(options.folder)
    record = Record(options.name, run.config.training.seed)
    metrics = run.metrics()
    found = evaluate(run, Evaluation(options.split, draws=options.draws, repeats=options.repeats)).document()
    record.write(
        name=options.name,
        trained=options.trained,
        config=to_json(run.config),
        **times(metrics),
        validation=validations(metrics),
        result=found,
    )


if __name__ == "__main__":
    main()
