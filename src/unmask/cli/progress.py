"""Progress of long work: a bar in a terminal, elsewhere an occasional line, so that a log shows that it is alive."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress, ProgressColumn

EVERY = 30.0
"""Seconds between two lines."""

Show = Callable[[float, float], None]
"""(done, total)."""


@contextmanager
def bar(console: Console, name: str, *columns: ProgressColumn | str) -> Iterator[Show]:
    """Gives a function to call with the progress."""
    if not console.is_terminal:
        yield silent if console.quiet else lines(name)
        return
    with Progress(*columns or Progress.get_default_columns(), console=console, transient=True) as progress:
        task = progress.add_task(name, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


@contextmanager
def keeping(kept: str) -> Iterator[None]:
    """On Ctrl-C, say what is kept and how to resume."""
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"stopped; {kept}; run the same command again to resume") from None


def lines(name: str, clock: Callable[[], float] = time.monotonic) -> Show:
    """A line on stderr at most every `EVERY` seconds: quick work stays silent."""
    start = last = clock()

    def show(done: float, total: float) -> None:
        nonlocal last
        now = clock()
        if 0 < done < total and now - last >= EVERY:
            last, left = now, (now - start) * (total - done) / done
            print(f"{name}: {done / total:.0%}, about {_duration(left)} left", file=sys.stderr, flush=True)

    return show


def silent(done: float, total: float) -> None:
    """Show nothing, where something else is shown."""
    del done, total


def _duration(seconds: float) -> str:
    """A duration, to the second, minute or hour."""
    for size, unit in ((3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
