"""The speed-up on a CPU from keeping memory for later tensors (`unmask.cli.memory`), as the commands do.

    python -m benchmarks.kept_memory

Each workload runs in its own processes, alternately with and without; ratios are those of the medians of this run.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import torch

from unmask import load, presets
from unmask.cli import memory
from unmask.run.bench import measure

from .record import Record

ROUNDS = 3


def _sampling(name: str) -> Callable[[], float]:
    """Seconds for 64 samples at once in 8 steps, measured on the second run."""

    def work() -> float:
        model = load(name)
        for _ in range(2):
            start = time.perf_counter()
            model.sample_tokens(64, steps=8)
        return time.perf_counter() - start

    return work


def _training(name: str) -> Callable[[], float]:
    """Seconds per thousand tokens."""

    def work() -> float:
        preset = presets.find(name)
        found = measure(preset.config, preset.shape, torch.device("cpu"), windows=3, window=5)
        return 1000 / found.tokens_per_s

    return work


WORK = {
    "64 texts of `demo`, 8 steps": _sampling("demo"),
    "64 pictures of `digits`, 8 steps": _sampling("digits"),
    "training `characters`": _training("characters"),
    "training `mnist`": _training("mnist"),
    "training `molecules`": _training("molecules"),
}


def measured(work: str, kept: bool) -> dict[str, Any]:
    """Run a workload in its own process."""
    command = [sys.executable, "-m", "benchmarks.kept_memory", "--work", work, *(["--keep"] if kept else [])]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def row(work: str) -> dict[str, Any]:
    """Measure both ways alternately, several times."""
    found: dict[bool, list[dict[str, Any]]] = {True: [], False: []}
    for _ in range(ROUNDS):
        for kept, those in found.items():
            those.append(measured(work, kept))
    ways = {
        "kept" if kept else "as usual": {
            "seconds": [r["seconds"] for r in those],
            "peak_mib": max(r["peak_mib"] for r in those),
        }
        for kept, those in found.items()
    }
    usual, kept = (statistics.median(ways[name]["seconds"]) for name in ("as usual", "kept"))
    print(f"{work}: {usual / kept:.2f} times as fast")
    return {"work": work, "times_as_fast": usual / kept, **ways}


def main() -> None:
    """Measure and record all workloads, or run a single one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", choices=WORK, help="run only this workload and print its time")
    parser.add_argument("--keep", action="store_true")
    given = parser.parse_args()
    if given.work is None:
        record = Record("kept_memory", 0)
        record.write(threads=torch.get_num_threads(), rounds=ROUNDS, rows=[row(work) for work in WORK])
        return
    if given.keep:
        memory.keep()
    seconds = WORK[given.work]()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(json.dumps({"seconds": seconds, "peak_mib": peak}))


if __name__ == "__main__":
    main()
