"""How much noisier the bound from one jump (Campbell et al.) is than from all masked tokens (MD4), on a known chain.

The cosine schedule gives one jump a finite variance; the linear one would not (∫ dt/(1−t)). That of all masked tokens
is infinite in both, but only like a logarithm, so the median of several ratios is reported.

python -m benchmarks.campbell_variance
"""

from statistics import median

import torch

from unmask.baselines import Jump
from unmask.core import ContinuousTime, Cosine, Estimator, Process, Streams, iid
from unmask.core.exact import MarkovLaw

from .record import Record, command

MANY, TIMES, V = 4000, 21, 4
LENGTHS = (16, 64, 256)


def main() -> None:
    """Use one evaluation of the exact denoiser per estimate, and one sequence of each length."""
    record, rows = Record("campbell_variance", seed=0), []
    law = MarkovLaw(torch.full((V,), 1 / V, dtype=torch.float64), 0.6 * torch.eye(V, dtype=torch.float64) + 0.1)
    process = Process(Cosine(), V)
    for length in LENGTHS:
        x = law.draw(length, Streams(0, 1))[0]
        truth = -law.log_prob(x[None])[0].item()
        jump, ours = (
            torch.stack([_estimates(estimator, law, x, seed) for seed in range(1, TIMES + 1)])
            for estimator in (Jump(process, iid), ContinuousTime(process, iid))
        )
        ratios = (jump.var(1) / ours.var(1)).tolist()
        row = {"length": length, "truth": truth, "campbell": _mean(jump), "md4": _mean(ours)}
        rows.append(row | {"variance_ratio": median(ratios), "low": min(ratios), "high": max(ratios)})
        print(rows[-1], flush=True)
    record.write(estimates=MANY, times=TIMES, rows=rows)


def _estimates(estimator: Estimator, law: MarkovLaw, x: torch.Tensor, seed: int) -> torch.Tensor:
    """Estimates of the bound from one evaluation each, in nats per sequence."""
    rows, process = x.expand(MANY, -1), estimator.process
    draw = estimator.draw(rows, Streams(seed, MANY))
    logits = law.denoiser(process)(process.hide(rows, draw.mask), draw.t)[draw.mask]
    return estimator.nelbo(logits, rows, draw).total


def _mean(values: torch.Tensor) -> dict[str, float]:
    return {"mean": values.mean().item(), "error": values.std().item() / values.numel() ** 0.5}


if __name__ == "__main__":
    command(main)
