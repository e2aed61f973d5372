"""The format of every published figure: command, versions, machine, date, duration and results."""

import json
import platform
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import torch
import tyro

import unmask
from unmask.files import atomic_write, standard

RESULTS = Path(__file__).parent / "results"


def load_results(*names: str) -> list[dict[str, Any]]:
    """The results with these names; * matches anything, and every name must match at least one file."""
    files = {name: sorted(RESULTS.glob(f"{name}.json")) for name in names}
    if missing := [name for name, found in files.items() if not found]:
        raise FileNotFoundError(f"no result of the name {', '.join(missing)} in {RESULTS}")
    return [json.loads(file.read_text()) for found in files.values() for file in found]


class Record:
    """Collects the figures of one run and writes `results/NAME.json` when done."""

    def __init__(self, name: str, seed: int):
        self.path = RESULTS / f"{name}.json"
        self.seed = seed
        self._start = time.perf_counter()

    def write(self, **figures: Any) -> None:
        """Write the figures with the command, versions, seed, duration and date."""
        command = shlex.join(["python", *sys.orig_argv[1:]])
        device = torch.cuda.get_device_name() if torch.cuda.is_available() else platform.machine()
        document = {
            "command": command,
            "versions": {"unmask": unmask.__version__, "torch": torch.__version__, "python": platform.python_version()},
            "device": device,
            "seed": self.seed,
            "duration_s": round(time.perf_counter() - self._start, 1),
            "date": datetime.now(UTC).date().isoformat(),
            **figures,
        }
        self.path.parent.mkdir(parents=True, exist_ok=True)
        _write(self.path, document)

    def add(self, **figures: Any) -> None:
        """Add figures to the file that this run or an earlier one has written."""
        _write(self.path, json.loads(self.path.read_text()) | figures)


def _write(path: Path, document: dict[str, Any]) -> None:
    with atomic_write(path, "w") as file:
        file.write(json.dumps(standard(document), indent=2, ensure_ascii=False, allow_nan=False) + "\n")
    print(f"wrote {path.name}")


def plainly(main: Callable[[], None]) -> None:
    """Run it; a user error prints one line and exits with code 2, as in the library's own commands."""
    try:
        main()
    except (ValueError, OSError) as mistake:
        print(" ".join(str(mistake).split()), file=sys.stderr)
        sys.exit(2)


def command(main: Callable[..., None]) -> None:
    """Run a function from the command line: its required parameters are words, the others options."""
    plainly(lambda: tyro.cli(main, config=(tyro.conf.PositionalRequiredArgs,)))


def rounds(budget: float) -> Iterator[int]:
    """Yield 0, 1, 2, … while another round as slow as the last would end within the budget in seconds; at least one."""
    start = last = time.perf_counter()
    for number in count():
        yield number
        now = time.perf_counter()
        if now + (now - last) > start + budget:
            return
        last = now
