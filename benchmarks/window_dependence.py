"""How far neighbouring windows of a text are from independent, using an n-gram model, which is quick to score.

    python -m benchmarks.window_dependence data/text8

The counts come from the beginning of the training split, and the rest is cut into pieces, as if each were a test split.
The spread of their bits is the true error of one piece. It is compared with the error over windows, as if they were
independent, and with the error over blocks of neighbouring windows that `unmask eval` reports; the result also says how
often the interval of a piece contains the mean of all.
"""

import argparse
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unmask.data import Dataset
from unmask.evaluation import Estimate, NGram, Scores, per_unit

from .record import Record, plainly

WINDOWS = (256, 1290)
"""Window lengths in tokens: 256 characters, and the characters in a window of 256 subwords."""
PIECES = (100_000, 1_000_000, 5_000_000)
"""Tokens per piece."""


def figures(bits: NDArray[np.float64], window: int) -> dict[str, Estimate]:
    """Bits per token of a text, with errors over windows and over blocks of them."""
    means = bits[: len(bits) // window * window].reshape(-1, window).mean(1)
    ones = np.ones(len(means), dtype=np.int64)
    return {
        name: per_unit(Scores(means, np.zeros(len(means)), ones, 0, neighbours=neighbours), ones)
        for name, neighbours in (("windows", False), ("blocks", True))
    }


def row(bits: NDArray[np.float64], window: int, piece: int) -> dict[str, Any]:
    """The row for a text in pieces of this many tokens, cut into windows."""
    count = len(bits) // piece
    found = [figures(part, window) for part in bits[: count * piece].reshape(count, piece)]
    means = np.array([one["windows"].mean for one in found])
    ways: dict[str, Any] = {}
    for name in found[0]:
        each = [one[name] for one in found]
        held = [low < means.mean() < high for low, high in (one.interval for one in each)]
        ways[name] = {"error": float(np.mean([one.error for one in each])), "held": float(np.mean(held))}
    return {"window": window, "piece": piece, "pieces": count, "error": float(means.std(ddof=1)), **ways}


def main() -> None:
    """Count, score and record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--order", type=int, default=5)
    parser.add_argument("--counted", type=int, default=20_000_000, help="tokens of the training split to count")
    given = parser.parse_args()
    record, dataset = Record("window_dependence", seed=0), Dataset(given.data)
    train = dataset.split("train")
    model = NGram(train.stream(0, given.counted), given.order, dataset.vocabulary.size)
    starts = range(given.counted, train.tokens - PIECES[-1] + 1, PIECES[-1])
    bits = np.concatenate([-np.log2(model.probs(train.stream(start, PIECES[-1]))) for start in starts])
    rows = [row(bits, window, piece) for window in WINDOWS for piece in PIECES]
    record.write(order=given.order, counted=given.counted, scored=len(bits), rows=rows)


if __name__ == "__main__":
    plainly(main)
