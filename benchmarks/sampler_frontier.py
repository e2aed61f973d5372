"""Every sampler that fits a text model, by quality against network calls (`unmask frontier`).

    python -m benchmarks.sampler_frontier MODEL DATA --count 128

Samplers on a grid are run with several numbers of steps, the others with several values of the option that trades
accuracy for speed. `joint` is the literature's draw in float32, as published. Its truncation grows with the number of
steps, so it and the two exact draws are also run with many steps. Samples are judged by perplexity under a 3-gram model
of the training data, or under a causal model if one is named, and by their variety; real data is judged for comparison.
"""

import argparse
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console

from unmask.cli.frontier import By, Real, measured
from unmask.configs import to_json
from unmask.run import find_model
from unmask.run.frontier import ALL, DATA, Frontier, Point

from .record import Record, plainly

HASTY = (
    *(f"first-hitting:tokens_per_call={number}" for number in (2, 4, 8, 16)),
    *(f"speculative:drafts={number}" for number in (2, 8)),
    *(f"entropy-bounded:gamma={bits}" for bits in (1, 4, 16)),
    *(f"threshold:probability={share}" for share in (0.3, 0.5, 0.7)),
)
"""Faster settings of samplers without a grid."""
DRAWS = ("ancestral", "two-step", "joint")
"""Three ways to draw from one distribution; the last is truncated."""


def plans(steps: tuple[int, ...], many: tuple[int, ...], count: int, seed: int) -> list[Frontier]:
    """What is run: every sampler, and the three draws with many steps."""
    how: dict[str, Any] = {"count": count, "seed": seed, "batch_size": count}
    return [Frontier((ALL, *HASTY), steps, **how), Frontier(DRAWS, many, **how)]


def points(name: str, wanted: list[Frontier], by: By, real: Real, folder: Path) -> list[Point]:
    """The points of all plans, with real data once; finished points in the folder are not sampled again."""
    found = [measured(name, plan, by, real, folder, Console()) for plan in wanted]
    return [point for number, part in enumerate(found) for point in part if point.sampler != DATA or not number]


def main() -> None:
    """Sample, judge and record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a run or an exported model")
    parser.add_argument("data", help="prepared data with its vocabulary")
    parser.add_argument("--count", type=int, default=128, help="samples per setting")
    parser.add_argument("--steps", type=int, nargs="+", default=[8, 16, 32, 64, 128])
    parser.add_argument("--many", type=int, nargs="+", default=[256, 1024], help="numbers of steps for the three draws")
    parser.add_argument("--judge", help="a run with --method ar on the same data, or a causal model from Hugging Face")
    parser.add_argument("--out", type=Path, help="keep finished points in this folder, and resume from them")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    record = Record("sampler_frontier", given.seed)
    wanted = plans(tuple(given.steps), tuple(given.many), given.count, given.seed)
    by, real = By(given.judge, "pixels", None), Real("test", given.data)
    with tempfile.TemporaryDirectory() as folder:
        found = points(given.model, wanted, by, real, given.out or Path(folder))
    record.write(
        model=to_json(find_model(given.model).config),
        samples=given.count,
        judge=given.judge,
        points=[asdict(point) for point in found],
    )


if __name__ == "__main__":
    plainly(main)
