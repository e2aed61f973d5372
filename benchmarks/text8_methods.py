r"""Trains one method on text8 with the budget shared by all: the same network, data, tokens and optimiser.

    python -m benchmarks.text8_methods METHOD data/text8 runs/METHOD --seed 0
    python -m benchmarks.text8_methods genmd4 data/text8 runs/races --masks exact-k --steps 2300 \
        --name genmd4/genmd4-2300-races --about 'exact-k masks'

Other flags are fields as for `unmask train` (--masks exact-k). Records bits per character of the whole test split, the
time per step, and how stable training was.
"""

import argparse
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from unmask.cli.plot import symbols
from unmask.cli.train import apply
from unmask.data import Dataset
from unmask.networks import Conditioning, TransformerConfig, cost
from unmask.run import Facts, Model, Run, RunConfig, load, train, with_method
from unmask.run.config import METHODS
from unmask.run.evaluate import Evaluation, evaluate
from unmask.training import OptimizerConfig, Report, TrainingConfig

from .record import Record

COUNTED = 10_000_000
"""Characters of the training text whose frequencies are recorded."""
SETTLED = 200
"""Steps not timed: compilation and warm-up."""


def config(method: str, data: str, seed: int, steps: int, time: bool, settings: list[str]) -> RunConfig:
    """25 M parameters, 256 characters, AdamW; time-conditioned where the method allows it and `time` is set."""
    training = TrainingConfig(
        steps=steps,
        batch_size=256,
        seed=seed,
        optimizer=OptimizerConfig(rate=1e-3),
        average=0.998,
        save_every=steps,
        validate_every=steps,
        preview=0,
    )
    network = TransformerConfig(Dataset(data).vocabulary.size, 8, 8, 512, conditioning=Conditioning(time=time))
    setup = with_method(RunConfig(data, network, training=training), method)
    if not time:  # including those that see it by default
        setup = replace(setup, network=replace(setup.network, conditioning=Conditioning()))
    return apply(setup, tuple(settings))


def trained(setup: RunConfig, folder: Path) -> tuple[list[Report], float]:
    """All reports, and the seconds per step after compilation."""
    reports: list[Report] = []
    start = 0.0
    for report in train(setup, folder):
        reports.append(report)
        if report.step == SETTLED:
            start = time.perf_counter()
        if report.step == setup.training.steps - 1:  # the last one also validates
            seconds = (time.perf_counter() - start) / (report.step - SETTLED)
    return reports, seconds


def calm(reports: list[Report], clip: float) -> dict[str, Any]:
    """Stability of training: the noise of the loss at the end, gradient norms, and the share of clipped steps."""
    loss = np.array([r.loss for r in reports])
    gradient = np.array([r.gradient for r in reports])[SETTLED:]
    last = loss[-len(loss) // 4 :]
    return {
        "loss_noise": float((last[1:] - last[:-1]).std() / 2**0.5),
        "gradient_median": float(np.median(gradient)),
        "gradient_largest": float(gradient.max()),
        "clipped": float((gradient > clip).mean()),
        "not_finite": int((~np.isfinite(loss)).sum()),
        "loss": [round(float(part.mean()), 4) for part in np.array_split(loss, 50)],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("method", choices=METHODS)
    parser.add_argument("data")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--steps", type=int, default=1500, help=f"more than {SETTLED + 1}; the first {SETTLED} are not timed"
    )
    parser.add_argument("--no-time", action="store_true")
    parser.add_argument("--about", default="", help="description of what differs in this run")
    parser.add_argument("--name", help="name of the record (default: methods/METHOD)")
    options, settings = parser.parse_known_args()
    if options.steps <= SETTLED + 1:
        parser.error(f"too few steps to time: got {options.steps}, allowed: more than {SETTLED + 1}; train longer")
    name = f"{options.method}{'-no-time' if options.no_time else ''}"
    record = Record(f"{options.name or f'methods/{name}'}-{options.seed}", options.seed)
    setup = config(options.method, options.data, options.seed, options.steps, not options.no_time, settings)
    size = cost(setup.network.build, Facts.of(Dataset(options.data), None).shape)
    reports, seconds = trained(setup, options.folder)
    run = Run.open(options.folder)
    found = evaluate(run, Evaluation("test", draws=2, repeats=2)).document()
    record.write(
        method=name,
        about=options.about,
        parameters=size.parameters,
        steps=options.steps,
        tokens=sum(r.tokens for r in reports),
        milliseconds_per_step=round(1000 * seconds, 2),
        peak_gib=round(torch.cuda.max_memory_allocated() / 2**30, 2),
        training=calm(reports, setup.training.clip),
        result=found,
        **learned(load(options.folder), Dataset(options.data)),
    )


def learned(model: Model, data: Dataset) -> dict[str, Any]:
    """The exponent w of every token, if the model has exponents, and the frequency of each token."""
    schedule, names = model.process.schedule, symbols(model.vocabulary)
    if not schedule.per_token:
        return {}
    counts = np.bincount(data.split("train").stream(0, COUNTED), minlength=len(names))
    w = schedule.w.tolist()  # type: ignore[attr-defined]
    return {
        "w": {name: round(value, 4) for name, value in zip(names, w, strict=True)},
        "frequencies": {name: count / COUNTED for name, count in zip(names, counts.tolist(), strict=True)},
    }


if __name__ == "__main__":
    main()
