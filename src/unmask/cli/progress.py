"""How far long work is: a bar in a terminal, and elsewhere a line now and then, so that a log shows it is alive."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress, ProgressColumn

EVERY = 30.0
"""Seconds between two lines."""

Show = Callable[[float, float], None]
"""(done, of how much)."""


@contextmanager
def bar(console: Console, name: str, *columns: ProgressColumn | str) -> Iterator[Show]:
    """Whoever works calls what this gives."""
    if not console.is_terminal:
        yield silent if console.quiet else lines(name)
        return
    with Progress(*columns or Progress.get_default_columns(), console=console, transient=True) as progress:
        task = progress.add_task(name, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


@contextmanager
def keeping(kept: str) -> Iterator[None]:
    """Whoever presses Ctrl-C is told what is kept, and that the work goes on from there."""
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"stopped; {kept}: the same command goes on") from None


def lines(name: str, clock: Callable[[], float] = time.monotonic) -> Show:
    """A line of stderr at most every so many seconds: quick work stays silent."""
    start = last = clock()

    def show(done: float, total: float) -> None:
        nonlocal last
        now = clock()
        if 0 < done < total and now - last >= EVERY:
            last, left = now, (now - start) * (total - done) / done
            print(f"{name}: {done / total:.0%}, about {_duration(left)} left", file=sys.stderr, flush=True)

    return show


def silent(done: float, total: float) -> None:
    """Nothing, where something else is shown."""
    del done, total


def _duration(seconds: float) -> str:
    """To the second, minute or hour."""
    for size, unit in ((3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
