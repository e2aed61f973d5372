"""How often the reported intervals contain the true value, on a Markov chain with known likelihoods.

python -m benchmarks.interval_coverage
"""

import math
from typing import Any

import torch

from unmask.core import Linear, Process, Streams
from unmask.core.bound import nelbo_at_once
from unmask.core.exact import MarkovLaw
from unmask.evaluation import Scores, Sequences, estimator_for, per_unit, score
from unmask.evaluation.intervals import Z95

from .record import Record, command

REPETITIONS, SEQUENCES, LENGTH, LETTERS = 300, 32, 24, 6


def main() -> None:
    """Check both intervals: Monte Carlo for given sequences, and over sequences for the whole distribution."""
    record = Record("interval_coverage", seed=0)
    law, process = MarkovLaw.random(LETTERS, seed=1), Process(Linear(), LETTERS)
    denoiser = law.denoiser(process)
    entropy = -law.log_prob(law.draw(LENGTH, Streams(99, 200_000))).mean().item() / LENGTH
    rows = []
    for name in ("exact-k", "paper"):
        inner = outer = 0
        for seed in range(REPETITIONS):
            x = law.draw(LENGTH, Streams(10_000 + seed, SEQUENCES))
            batch = [Sequences(x, torch.arange(SEQUENCES))]
            how: dict[str, Any] = {"draws": 4, "repeats": 8, "seed": seed, "nelbo_fn": nelbo_at_once}
            found = Scores.joined(score(denoiser, batch, estimator_for(process, name), **how))
            figure = per_unit(found, found.tokens)
            truth = -law.log_prob(x).mean().item() / LENGTH
            inner += abs(figure.mean - truth) < Z95 * figure.monte_carlo
            low, high = figure.interval
            outer += low < entropy < high
        rows.append({"estimator": name, "monte_carlo": inner / REPETITIONS, "over_sequences": outer / REPETITIONS})
        print(rows[-1], flush=True)
    error = math.sqrt(0.95 * 0.05 / REPETITIONS)
    record.write(repetitions=REPETITIONS, sequences=SEQUENCES, stated=0.95, error_of_a_rate=error, rows=rows)


if __name__ == "__main__":
    command(main)
