"""Network calls needed for ±0.005 bits per token on a trained model: our estimators against the paper's.

python -m benchmarks.estimator_efficiency RUN
"""

import math
from typing import Any

import numpy as np
import torch

from unmask import load
from unmask.core import ContinuousTime, Controlled, Estimator, ExactK, PowerK, balanced, estimate_nelbo, iid, lattice
from unmask.core.bound import fit_surprise
from unmask.data import Dataset
from unmask.evaluation.loss import nelbo_in_chunks
from unmask.run import Run

from .record import Record, command

TARGET, SEQUENCES, PILOT = 0.005, 64, 48


def main(folder: str) -> None:
    """Measure the variance of a single-call estimate for one sequence, from many calls on held-out sequences."""
    record = Record("estimator_efficiency", seed=0)
    model, config = load(folder), Run.open(folder).config
    train, valid = (
        _tokens(config.data, split, config.length, n) for split, n in (("train", PILOT), ("valid", SEQUENCES))
    )
    ours = ExactK(model.process, balanced, PowerK(0.5))
    surprise = fit_surprise(model.network, train, ours, draws=8)
    ways: dict[str, tuple[Estimator, int, int]] = {
        "paper: independent masks, a time for each pass": (ContinuousTime(model.process, iid), 1, 64),
        "paper: its low-discrepancy times within a sequence": (ContinuousTime(model.process, lattice), 8, 8),
        "exact-k, stratified, k^-½": (ours, 8, 8),
        "exact-k with a control variate": (Controlled(ours, surprise, 1.0), 16, 8),
    }
    rows: list[dict[str, Any]] = []
    for name, (estimator, draws, repeats) in ways.items():
        found = estimate_nelbo(model.network, valid, estimator, draws=draws, repeats=repeats, nelbo_fn=nelbo_in_chunks)
        unit = valid.shape[1] * math.log(2)
        variance = float(((found.standard_error / unit) ** 2).mean()) * draws * repeats
        error = float((found.standard_error / unit).square().sum().sqrt()) / len(valid)
        calls = math.ceil(variance / TARGET**2)
        mean = float(found.mean.mean()) / unit
        rows.append({"estimator": name, "calls": calls, "bits_per_token": mean, "monte_carlo_error": error})
        print(rows[-1], flush=True)
    record.write(target=TARGET, sequences=SEQUENCES, rows=rows)


def _tokens(data: str, split: str, length: int | None, count: int) -> torch.Tensor:
    return torch.from_numpy(Dataset(data).split(split, length).read(np.arange(count)).tokens).long()


if __name__ == "__main__":
    command(main)
