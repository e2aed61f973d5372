"""How far neighbouring windows of a text are from independent, by an n-gram model, which is quickly scored.

    python -m benchmarks.window_dependence data/text8

The standard error of the mean over windows, as if they were independent, beside that over blocks of neighbours. Where
both are alike, an error over windows can be believed.
"""

import argparse
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unmask.data import Dataset
from unmask.evaluation import NGram

from .record import Record, plainly

BLOCKS = 32
WINDOWS = (256, 1290)
"""Tokens: a window of characters, and the characters of a window of 256 subwords."""


def error(values: NDArray[np.float64]) -> float:
    """Of the mean of independent values."""
    return float(values.std(ddof=1) / np.sqrt(len(values)))


def row(bits: NDArray[np.float64], window: int) -> dict[str, Any]:
    """Windows of so many tokens, and blocks of as many windows each."""
    means = bits[: len(bits) // window * window].reshape(-1, window).mean(1)
    blocks = means[: len(means) // BLOCKS * BLOCKS].reshape(BLOCKS, -1).mean(1)
    return {
        "window": window,
        "windows": len(means),
        "bits_per_token": float(means.mean()),
        "neighbours_correlate": float(np.corrcoef(means[:-1], means[1:])[0, 1]),
        "error_of_windows": error(means),
        "error_of_blocks": error(blocks),
    }


def main() -> None:
    """Count, score, record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--order", type=int, default=5)
    parser.add_argument("--counted", type=int, default=20_000_000, help="tokens of the training split")
    given = parser.parse_args()
    record, dataset = Record("window_dependence", seed=0), Dataset(given.data)
    train, test = dataset.split("train"), dataset.split("test")
    counted = train.stream(0, min(given.counted, train.tokens))
    model = NGram(counted, given.order, dataset.vocabulary.size)
    bits = -np.log2(model.probs(test.stream(0, test.tokens)))
    rows = [row(bits, window) for window in WINDOWS]
    record.write(order=given.order, counted=len(counted), blocks=BLOCKS, rows=rows)


if __name__ == "__main__":
    plainly(main)
