"""Peak memory of preparing a text larger than the memory limit: the whole process tree, watched from outside.

python -m benchmarks.preparation_memory --gigabytes 3 --folder /tmp/large
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from .record import Record

WORDS = 5000
BLOCK = 1 << 22


def generate(path: Path, size: int, seed: int) -> None:
    """Write lines of words with Zipf-distributed frequencies until the file has this many bytes."""
    rng = np.random.default_rng(seed)
    letters = np.array(list("etaoinshrdlucmfwypvbgkjqxz"))
    words = np.array(["".join(rng.choice(letters, size=n)) for n in rng.integers(1, 10, WORDS)])
    law = 1 / np.arange(1, WORDS + 1)
    with path.open("w", encoding="ascii") as file:
        while file.tell() < size:
            drawn = rng.choice(words, size=BLOCK // 6, p=law / law.sum())
            file.write("\n".join(" ".join(line) for line in np.array_split(drawn, len(drawn) // 12)) + "\n")


def resident(pid: int) -> int:
    """Resident bytes of a process and its descendants; shared pages are counted in each."""
    total = 0
    try:
        status = Path(f"/proc/{pid}/status").read_text()
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:  # gone meanwhile
        return 0
    for line in status.splitlines():
        if line.startswith("VmRSS:"):
            total += int(line.split()[1]) * 1024
    return total + sum(resident(int(child)) for child in children)


def watched(command: list[str]) -> tuple[int, float]:
    """Run a command; return its peak memory in bytes and its duration."""
    start, peak = time.perf_counter(), 0
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    while process.poll() is None:
        peak = max(peak, resident(process.pid))
        time.sleep(0.05)
    if process.returncode:
        raise SystemExit(process.returncode)
    return peak, time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=3.0)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    record = Record("preparation_memory", options.seed)
    text = options.folder / "large.txt"
    generate(text, int(options.gigabytes * 1e9), options.seed)
    rows = []
    for vocabulary in ("characters", "bytes", "bpe:4096"):
        out = options.folder / vocabulary.replace(":", "-")
        command = [sys.executable, "-m", "unmask", "data", "prepare", str(text), "--vocabulary", vocabulary]
        peak, seconds = watched([*command, "--out", str(out), "--workers", str(os.cpu_count())])
        rows.append({"vocabulary": vocabulary, "peak_mib": round(peak / 2**20), "seconds": round(seconds)})
    record.write(bytes=text.stat().st_size, workers=os.cpu_count(), rows=rows)


if __name__ == "__main__":
    main()
