"""How low a recipe brings text8 in a given time of training.

    python -m benchmarks.text8_speedrun NAME data/text8 runs/NAME --seconds 100 --about "what is tried" --layers 8 …

The clock starts when everything is compiled (that time is stated), and the number of steps follows from the speed that
is measured then, so that the learning rate falls to its end in time. Other flags are fields as for `unmask train`.
Held-out bits are those of the averaged weights: of a part of the validation split, with the same masks for all recipes,
or of the whole test split (`--split test --sequences 0`).
"""

import argparse
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from unmask.cli.train import apply
from unmask.configs import to_json
from unmask.data import Dataset
from unmask.networks import HourglassConfig, TransformerConfig
from unmask.run import Run, RunConfig
from unmask.run.config import NetworkConfig
from unmask.run.evaluate import Evaluation, evaluate
from unmask.run.train import build_trainer
from unmask.training import MD4Config, OptimizerConfig, RateConfig, Report, Trainer, TrainingConfig

from .record import Record

COMPILED, TIMED = 10, 50
"""Steps before the clock starts, and those whose speed decides how many there will be."""
NEVER = 1 << 30
NETWORKS: dict[str, NetworkConfig] = {"transformer": TransformerConfig(27, 8, 8, 512), "hourglass": HourglassConfig(27)}


def recipe(network: str, data: str, seed: int, settings: list[str]) -> RunConfig:
    """Muon, a long linear cooldown, plain weights; all else by settings."""
    training = TrainingConfig(
        steps=NEVER,
        batch_size=512,
        seed=seed,
        optimizer=OptimizerConfig("muon", rate=2e-3, muon_rate=3e-3),
        rate=RateConfig(cooldown="linear", cooldown_share=0.6),
        average=0.998,
        save_every=NEVER,
        validate_every=NEVER,
        preview=0,
    )
    shape = replace(NETWORKS[network], vocab_size=Dataset(data).vocabulary.size)
    return apply(RunConfig(data, shape, MD4Config(weighting="ce"), training), tuple(settings))


def trained(trainer: Trainer, seconds: float) -> tuple[list[Report], dict[str, float]]:
    """Train for so many seconds after compilation; all reports, and how long it took."""
    reports, begun, start, last = [], time.perf_counter(), 0.0, NEVER
    for report in trainer.steps():
        reports.append(report)
        if report.step == COMPILED:
            start = time.perf_counter()
        if report.step == COMPILED + TIMED:
            each = (time.perf_counter() - start) / TIMED
            last = COMPILED + int(seconds / each)
            trainer.config = replace(trainer.config, steps=last)
        if trainer.done >= last:  # on a GPU its report would come with the next step
            break
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return reports, {"compile_s": round(start - begun, 1), "training_s": round(time.perf_counter() - start, 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("name")
    parser.add_argument("data")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--network", choices=NETWORKS, default="transformer")
    parser.add_argument("--seconds", type=float, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--split", default="valid")
    parser.add_argument("--sequences", type=int, default=2000, help="0: all")
    parser.add_argument("--about", default="")
    options, settings = parser.parse_known_args()
    record = Record(f"speedrun/{options.name}-{options.seed}", options.seed)
    config = recipe(options.network, options.data, options.seed, settings)
    trainer = build_trainer(config, options.folder, torch.device("cuda" if torch.cuda.is_available() else "cpu"))
    reports, times = trained(trainer, options.seconds)
    config = replace(config, training=trainer.config)
    Run.start(options.folder, config)
    trainer.save()
    wanted = Evaluation(options.split, sequences=options.sequences or None, draws=2, repeats=2)
    record.write(
        name=options.name,
        about=options.about,
        budget_s=options.seconds,
        parameters=sum(p.numel() for p in trainer.method.parameters()),
        steps=trainer.done,
        tokens=trainer.done * reports[-1].tokens,
        **times,
        peak_gib=round(torch.cuda.max_memory_allocated() / 2**30, 2) if torch.cuda.is_available() else None,
        loss=curve(reports),
        config=to_json(replace(config, data=Path(options.data).name)),
        vocabulary=Dataset(options.data).vocabulary.size,
        result=evaluate(Run.open(options.folder), wanted).document() | {"data": None},
    )


def curve(reports: list[Report]) -> list[Any]:
    """The loss of training in fifty pieces."""
    pieces = np.array_split(np.array([r.loss for r in reports]), 50)
    return [round(float(piece.mean()), 4) for piece in pieces]


if __name__ == "__main__":
    main()
