"""`unmask samplers`: the list, and the paper's figure of tokens revealed per step."""

from pathlib import Path

from rich.console import Console
from rich.table import Table

from unmask.core import Cosine, Linear, Schedule
from unmask.files import check_files
from unmask.mistakes import require
from unmask.sampling import LAWS, SAMPLERS

from .figures import plot_revealed
from .machine import print_json


def run(plot: Path | None, steps: int, length: int, as_json: bool) -> int:
    """Print the list, and draw the figure if requested."""
    check_files(plot)
    drawn = None if plot is None else figure(plot, steps, length)
    rows = [
        {
            "name": name,
            "does": s.summary,
            "law": s.law,
            "options": s.options,
            "grid": s.grid,
            "schedules": s.schedules.words,
        }
        for name, s in SAMPLERS.items()
    ]
    if as_json:
        print_json(rows)
        return 0
    if drawn is not None:
        print(f"wrote {drawn}")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in ("sampler", "what it does", "distribution", "options"):
        table.add_column(column, overflow="fold")
    for name, sampler in SAMPLERS.items():
        options = " ".join(f"{key}={value}" for key, value in sampler.options.items())
        table.add_row(name, sampler.summary, sampler.law, options)
    console = Console()
    console.print(table)
    for law, meaning in LAWS.items():
        console.print(f"[bold]{law}[/]: {meaning}", highlight=False)
    return 0


def figure(path: Path, steps: int, length: int) -> Path:
    """Plot the tokens revealed per step (the paper's Figure 2, right); returns the path."""
    require(steps >= 1, "the number of steps is not positive", got=steps, allowed=">= 1", do="use 100")
    lines: list[tuple[Schedule, str, str]] = [
        (Linear(), "uniform", "linear schedule, uniform grid"),
        (Linear(), "cosine", "linear schedule, cosine grid"),
        (Cosine(), "uniform", "cosine schedule, uniform grid"),
    ]
    return plot_revealed(path, lines, steps, length)
