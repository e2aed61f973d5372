"""Ctrl-C and SIGTERM as requests to stop: the current step is finished, and progress is saved."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def stop_requested() -> Iterator[Callable[[], bool]]:
    """Tells whether a stop was requested; a second Ctrl-C stops at once. Signals are caught only in the main thread."""
    asked = False

    def ask(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        del frame
        if asked:
            raise KeyboardInterrupt(number)
        asked = True

    listens = threading.current_thread() is threading.main_thread()
    before = {s: signal.signal(s, ask) for s in (signal.SIGINT, signal.SIGTERM)} if listens else {}
    try:
        yield lambda: asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
