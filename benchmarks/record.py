"""One form for every published figure: what was run, with what, when, how long, and what came out."""

import json
import platform
import shlex
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

import unmask

RESULTS = Path(__file__).parent / "results"


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
        self.path.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
        print(f"wrote {self.path.name}")
