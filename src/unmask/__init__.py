"""unmask: masked diffusion models on any discrete data — exact, fast, in one command.

`unmask.train` and `unmask.load` are the entry points from Python, `unmask.presets` holds the presets, `unmask.extend`
registers parts of your own, `unmask.core` is the mathematics; `unmask --help` lists the commands.
"""

from collections.abc import Callable
from contextlib import closing as _closing
from importlib import import_module as _import_module
from pathlib import Path as _Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .run import Model, Run, RunConfig
    from .training import Report

__version__ = "0.1.0"
__all__ = ["__version__", "extend", "load", "presets", "run", "train"]


def train(
    config: "RunConfig", folder: "str | _Path", *, report: "Callable[[Report], Any] | None" = None, **options: Any
) -> "Run":
    """Train in a folder, resuming from its last checkpoint if it has one; `report` is called after every step.

    Ctrl-C ends the current step, saves and raises KeyboardInterrupt; the same call resumes.

    Options: `device` (torch.device), `log` (names in `unmask.run.sinks.SINKS`), `parallel` (with torchrun).
    """
    from .run import Run
    from .run import train as steps
    from .run.stop import stop_requested

    with stop_requested() as stopped, _closing(steps(config, _Path(folder), stop_asked=stopped, **options)) as reports:
        for done in reports:
            if report is not None:
                report(done)
            if done.stop_asked:
                raise KeyboardInterrupt
    return Run.open(folder)


def load(model: "str | _Path", **options: Any) -> "Model":
    """Load a model, ready to sample: folder of a run or an exported model, hub:OWNER/NAME, or a shipped model's name.

    Options: `average`, `best`, `device`; see `unmask.run.load`.
    """
    from .run import load as load_model

    return load_model(model, **options)


def __getattr__(name: str) -> Any:
    """Import `unmask.presets` and others on first use, so that torch is loaded only when something needs it."""
    if name in ("extend", "presets", "run"):
        return _import_module(f"unmask.{name}")
    raise AttributeError(f"module 'unmask' has no attribute {name!r}")
