"""How much noisier the bound from one jump (Campbell et al.) is than from all masked tokens (MD4), on a known chain.

python -m benchmarks.campbell_variance
"""

import torch

from unmask.baselines import Jump
from unmask.core import ContinuousTime, Estimator, Linear, Process, Streams, iid
from unmask.core.exact import MarkovLaw

from .record import Record, command

MANY, V = 4000, 4
LENGTHS = (16, 64, 256)


def main() -> None:
    """Use one evaluation of the exact denoiser per estimate, and one sequence of each length."""
    record, rows = Record("campbell_variance", seed=0), []
    law = MarkovLaw(torch.full((V,), 1 / V, dtype=torch.float64), 0.6 * torch.eye(V, dtype=torch.float64) + 0.1)
    process = Process(Linear(), V)
    for length in LENGTHS:
        x = law.draw(length, Streams(0, 1))[0]
        truth = -law.log_prob(x[None])[0].item()
        jump, ours = (_spread(estimator, law, x) for estimator in (Jump(process, iid), ContinuousTime(process, iid)))
        row = {"length": length, "truth": truth, "campbell": jump, "md4": ours}
        rows.append(row | {"variance_ratio": (jump["deviation"] / ours["deviation"]) ** 2})
        print(rows[-1], flush=True)
    record.write(estimates=MANY, rows=rows)


def _spread(estimator: Estimator, law: MarkovLaw, x: torch.Tensor) -> dict[str, float]:
    """Mean, error and variance of the estimates, in nats per sequence."""
    rows, process = x.expand(MANY, -1), estimator.process
    draw = estimator.draw(rows, Streams(1, MANY))
    logits = law.denoiser(process)(process.hide(rows, draw.mask), draw.t)[draw.mask]
    values = estimator.nelbo(logits, rows, draw).total
    deviation = values.std().item()
    return {"mean": values.mean().item(), "error": deviation / MANY**0.5, "deviation": deviation}


if __name__ == "__main__":
    command(main)
