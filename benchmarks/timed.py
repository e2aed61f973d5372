"""Trains a preset for a given time on any machine, and measures the bound on held-out data.

    python -m benchmarks.timed NAME DATA RUN --preset cifar10 --seconds 600 --method d3pm --batch-size 128 …

The clock starts when everything is compiled (the compile time is recorded), and the number of steps follows from the
speed measured then, so that the learning rate ends its decay in time. Other flags are fields as for `unmask train`.
The averaged weights are measured: on the whole test split, or on part of another split with the same masks for all
(`--split valid --sequences 2000`).

`--first="--batch-size 128"` sets fields for the first 40 % of the time only, when the rate does not fall; the second
stage starts from the averaged weights, and lets the rate fall.
"""

import argparse
import shlex
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from unmask import presets
from unmask.cli.train import apply
from unmask.configs import to_json
from unmask.core.device import best_device
from unmask.data import Dataset
from unmask.run import Run, RunConfig, adapted_to_data, with_method
from unmask.run.config import METHODS
from unmask.run.evaluate import Evaluation, evaluate
from unmask.run.train import build_trainer
from unmask.training import Report, Trainer

from .record import Record

COMPILED, TIMED = 10, 50
"""Steps before the clock starts, and steps whose speed gives the first estimate of the number of steps."""
SETTLED = 0.35
"""The part of the time whose speed gives the final number: early steps are slower, and the rate falls from 0.4 on."""
NEVER = 1 << 30
SEEN = 512
"""Training sequences whose bound shows how much of the data was memorised."""
FIRST = 0.4
"""The part of the time in which `--first` applies: what a linear cooldown over 60 % leaves."""


def parser(description: str | None, split: str, sequences: int) -> argparse.ArgumentParser:
    """The options that all timed runs share."""
    wanted = argparse.ArgumentParser(description=description, allow_abbrev=False)
    wanted.add_argument("name")
    wanted.add_argument("data")
    wanted.add_argument("folder", type=Path)
    wanted.add_argument("--method", choices=METHODS, default="md4")
    wanted.add_argument("--seconds", type=float, default=100)
    wanted.add_argument("--seed", type=int, default=0)
    wanted.add_argument("--split", default=split)
    wanted.add_argument("--sequences", type=int, default=sequences, help="0: all")
    wanted.add_argument("--draws", type=int, default=2)
    wanted.add_argument("--about", default="")
    wanted.add_argument("--first", default="", help="fields for the first 40 %% of the time")
    return wanted


@dataclass(frozen=True)
class Stage:
    """A training stage of a given time, whose run is saved."""

    trainer: Trainer
    reports: list[Report]
    compile_s: float
    training_s: float

    @property
    def tokens(self) -> int:
        """The number of tokens read."""
        return self.trainer.done * self.reports[-1].tokens


def trained(trainer: Trainer, seconds: float, clock: Callable[[], float] = time.perf_counter) -> Stage:
    """Train for this many seconds after compilation."""
    reports, begun, start, last = [], clock(), 0.0, NEVER
    since = (0.0, COMPILED)  # from when on, and from which step on, the speed is taken: first the start
    for report in trainer.steps():
        reports.append(report)
        if report.step == COMPILED:
            start = clock()
        spent, (then, step) = clock() - start, since
        early, settled = report.step == COMPILED + TIMED, step > COMPILED and then < SETTLED * seconds < spent
        if early or settled:
            each = (spent - then) / (report.step - step)
            last = max(trainer.done, report.step + int((seconds - spent) / each))
            trainer.config = replace(trainer.config, steps=last)
            since = (spent, report.step)
        if trainer.done >= last:  # on a GPU its report would come with the next step
            break
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return Stage(trainer, reports, start - begun, clock() - start)


def run_stage(config: RunConfig, folder: Path, seconds: float) -> Stage:
    """Train in a folder, which becomes a run."""
    stage = trained(build_trainer(config, folder, best_device()), seconds)
    Run.start(folder, replace(config, training=stage.trainer.config))
    stage.trainer.save()
    return stage


def first_stage(config: RunConfig, options: argparse.Namespace) -> tuple[Stage, RunConfig]:
    """Train with the fields of `--first`; returns the stage and the configuration of the second stage."""
    training, folder = config.training, options.folder.with_name(f"{options.folder.name}-first")
    steady = replace(config, training=replace(training, rate=replace(training.rate, cooldown="none")))
    stage = run_stage(apply(steady, tuple(shlex.split(options.first))), folder, FIRST * options.seconds)
    falling = replace(training.rate, warmup=0, cooldown="linear", cooldown_share=1.0)
    return stage, replace(config, start=str(folder), training=replace(training, rate=falling))


def record(name: str, config: RunConfig, options: argparse.Namespace) -> None:
    """Train, measure and record."""
    written, stages = Record(name, options.seed), []
    if options.first:
        stage, config = first_stage(config, options)
        stages.append(stage)
    stages.append(run_stage(config, options.folder, (1 - FIRST * len(stages)) * options.seconds))
    trainer = stages[-1].trainer
    config = replace(config, training=trainer.config, data=Path(options.data).name)
    run = Run.open(options.folder)
    wanted = Evaluation(options.split, sequences=options.sequences or None, draws=options.draws, repeats=2)
    written.write(
        name=options.name,
        about=options.about,
        budget_s=options.seconds,
        parameters=sum(p.numel() for p in trainer.method.parameters()),
        steps=sum(stage.trainer.done for stage in stages),
        tokens=sum(stage.tokens for stage in stages),
        compile_s=round(sum(stage.compile_s for stage in stages), 1),
        training_s=round(sum(stage.training_s for stage in stages), 1),
        peak_gib=round(torch.cuda.max_memory_allocated() / 2**30, 2) if torch.cuda.is_available() else None,
        loss=curve([report for stage in stages for report in stage.reports]),
        first=options.first,
        config=to_json(replace(config, start=None)),
        vocabulary=Dataset(options.data).vocabulary.size,
        result=evaluate(run, wanted).document() | {"data": None},
    )
    written.add(seen=evaluate(run, replace(wanted, split="train", sequences=SEEN)).document() | {"data": None})


def curve(reports: list[Report]) -> list[Any]:
    """The training loss averaged over fifty segments."""
    pieces = np.array_split(np.array([r.loss for r in reports]), 50)
    return [round(float(piece.mean()), 4) for piece in pieces]


def main() -> None:
    wanted = parser(__doc__, "test", 0)
    wanted.add_argument("--preset", choices=presets.PRESETS, required=True)
    options, settings = wanted.parse_known_args()
    config = with_method(adapted_to_data(presets.find(options.preset).config, options.data), options.method)
    only_steps = {"steps": NEVER, "save_every": NEVER, "validate_every": NEVER, "preview": 0, "seed": options.seed}
    config = replace(config, training=replace(config.training, **only_steps))
    record(f"{options.name}-{options.seed}", apply(config, tuple(settings)), options)


if __name__ == "__main__":
    main()
