"""Network calls needed for ±0.005 bits per token on a trained model: ours against the paper's estimator.

python -m benchmarks.estimator_efficiency RUN
"""

import math
import sys
from pathlib import Path
from typing import Any

import numpy as np

from unmask.run import Run
from unmask.run.evaluate import Evaluation, evaluate

from .record import Record

TARGET, SEQUENCES, DRAWS, REPEATS = 0.005, 128, 8, 16


def main(folder: str) -> None:
    """The variance of one call's estimate follows from many repeats on some held-out sequences."""
    record = Record("estimator_efficiency", seed=0)
    rows: list[dict[str, Any]] = []
    for name in ("exact-k", "paper"):
        wanted = Evaluation("valid", sequences=SEQUENCES, estimator=name, draws=DRAWS, repeats=REPEATS)
        found = evaluate(Run.open(Path(folder)), wanted)
        variance = float(np.mean((found.scores.error / found.scores.tokens / math.log(2)) ** 2)) * DRAWS * REPEATS
        calls = math.ceil(variance / TARGET**2)
        mean = found.per_token.mean / math.log(2)
        error = found.per_token.monte_carlo / math.log(2)
        rows.append({"estimator": name, "calls": calls, "bits_per_token": mean, "monte_carlo_error": error})
        print(rows[-1], flush=True)
    ratio = rows[1]["calls"] / rows[0]["calls"]
    record.write(target=TARGET, sequences=SEQUENCES, draws=DRAWS, repeats=REPEATS, rows=rows, ratio=ratio)


if __name__ == "__main__":
    main(*sys.argv[1:])
