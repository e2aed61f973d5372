"""What every measurement records: the command, the machine, the versions, the time."""

import platform
import shlex
import sys
import time
from datetime import UTC, datetime
from typing import Any

import torch

import unmask


def device() -> tuple[torch.device, str]:
    """The device to measure on, and its name."""
    if torch.cuda.is_available():
        return torch.device("cuda"), torch.cuda.get_device_name()
    return torch.device("cpu"), f"{platform.machine()}, {torch.get_num_threads()} threads"


def document(name: str, seed: int, start: float, **figures: Any) -> dict[str, Any]:
    """The figures with their origin; `start` is a value of `time.perf_counter`."""
    return {
        "command": shlex.join(["unmask", *_without_out(sys.argv[1:])]),
        "device": name,
        "versions": {"unmask": unmask.__version__, "torch": torch.__version__},
        "seed": seed,
        "duration_s": round(time.perf_counter() - start, 1),
        "date": datetime.now(UTC).date().isoformat(),
        **figures,
    }


def _without_out(words: list[str]) -> list[str]:
    """The arguments without --out: where the result was written is not part of the measurement."""
    pairs = zip(words, ["", *words], strict=False)
    return [word for word, before in pairs if "--out" not in (word, before) and not word.startswith("--out=")]
