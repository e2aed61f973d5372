"""One short training run per type of network: checks that the loss falls and that bf16 and fp32 agree.

    python -m benchmarks.network_runs transformer data/text8 runs/transformer

The run is the paper's preset with fewer steps. The first steps are then repeated in fp32 with the same data and noise.
"""

import argparse
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from unmask import presets
from unmask.data import Dataset
from unmask.networks import cost
from unmask.run import Facts, RunConfig, adapted_to_data, train

from .record import Record


@dataclass(frozen=True)
class Case:
    """A preset and how much of it to run."""

    preset: str
    batch_size: int
    steps: int
    fp32_steps: int
    rate: float


CASES = {
    "transformer": Case("text8", 256, 400, 60, 1e-3),
    "unet": Case("cifar10", 128, 240, 50, 4e-4),
    "uvit": Case("imagenet64", 16, 160, 30, 2e-4),
}


def config(case: Case, data: str, precision: str) -> RunConfig:
    """The preset on this data with fewer steps; precision is bf16 or fp32."""
    base = adapted_to_data(presets.find(case.preset).config, data)
    training = replace(
        base.training,
        steps=case.steps,
        batch_size=case.batch_size,
        precision=precision,  # type: ignore[arg-type]
        optimizer=replace(base.training.optimizer, rate=case.rate),
        rate=replace(base.training.rate, warmup=20),
        average=0.99,
        save_every=case.steps,
        validate_every=case.steps,
        validation_sequences=64,
        preview=4,
        preview_steps=64,
    )
    return replace(base, training=training)


def run(setup: RunConfig, folder: Path, steps: int) -> dict[str, Any]:
    """The loss of the first steps, the held-out bound if it was computed, speed and peak memory."""
    torch.cuda.reset_peak_memory_stats()
    losses, seconds, held_out = [], [], None
    reports = train(setup, folder, torch.device("cuda"))
    for report in reports:
        losses.append(report.loss)
        seconds.append(report.seconds)
        held_out = report.validation or held_out
        if report.step == steps:
            break
    tokens = report.tokens / float(np.median(seconds[5:]))
    return {
        "loss": [round(x, 5) for x in losses],
        "held_out": None if held_out is None else {"mean": held_out.mean, "error": held_out.error},
        "tokens_per_s": round(tokens),
        "peak_gib": round(torch.cuda.max_memory_allocated() / 2**30, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("network", choices=CASES)
    parser.add_argument("data")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--about", default="", help="description of the data, if it is not the preset's own")
    options = parser.parse_args()
    case = CASES[options.network]
    record = Record(f"network_run_{options.network}", seed=0)
    found = {p: config(case, options.data, p) for p in ("bf16", "fp32")}
    size = cost(found["bf16"].network.build, Facts.of(Dataset(options.data), None).shape)
    low = run(found["bf16"], options.folder / "bf16", case.steps)
    full = run(found["fp32"], options.folder / "fp32", case.fp32_steps)
    gap = np.abs(np.array(low["loss"][: case.fp32_steps]) - np.array(full["loss"]))
    record.write(
        preset=case.preset,
        data=options.about or options.data,
        parameters=size.parameters,
        batch_size=case.batch_size,
        steps=case.steps,
        bf16=low,
        fp32=full,
        gap={"steps": case.fp32_steps, "mean": float(gap.mean()), "largest": float(gap.max())},
    )


if __name__ == "__main__":
    main()
