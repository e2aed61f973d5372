"""Jobs of a model: a bounded number at the same time, a bounded number that waits, each with frames as they come."""

import asyncio
import math
import threading
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from torch import Tensor

from ..networks import Halves
from ..run import Model, Sampling
from ..sampling import Frame
from .batcher import Batcher

_T = TypeVar("_T")


@dataclass(frozen=True)
class Limits:
    """What a server takes on."""

    jobs: int = 32
    """At the same time."""
    queue: int = 256
    """That wait; beyond it, callers are told to come back."""
    rows: int = 64
    """Samples in one network call."""
    samples: int = 16
    """Of one request."""
    tokens: int = 2048
    """Of one sample, given and new."""
    steps: int = 1024
    body: int = 1 << 20
    """Bytes of a request."""


class BusyError(Exception):
    """The queue is full."""

    def __init__(self, seconds: int):
        super().__init__(f"too many requests wait already: try again in {seconds} s")
        self.seconds = seconds


class CancelledError(Exception):
    """Nobody waits for the result any more."""


@dataclass(frozen=True)
class _Wanted:
    """The network as long as somebody waits for the result."""

    batcher: Batcher
    gone: threading.Event

    def features(self, x: Tensor, t: Tensor, label: Tensor | None = None) -> Tensor:
        if self.gone.is_set():
            raise CancelledError
        return self.batcher.features(x, t, label)

    def head(self, features: Tensor) -> Tensor:
        return self.batcher.head(features)


class Engine:
    """Runs the jobs of one model; those that run at the same time share network calls."""

    def __init__(self, model: Model, limits: Limits, told: Callable[[int], object] = id):
        self.model, self.limits = model, limits
        self._batcher = Batcher(model.network, model.device, limits.rows, told)
        self._pool = ThreadPoolExecutor(limits.jobs, thread_name_prefix="job")
        self._lock = threading.Lock()
        self.pending = 0
        """Jobs that run or wait."""
        self._usual = 1.0
        """Seconds that a job takes, as a moving average."""

    @property
    def running(self) -> int:
        return min(self.pending, self.limits.jobs)

    @property
    def waiting(self) -> int:
        return self.pending - self.running

    async def frames(self, x: Tensor, sampling: Sampling) -> AsyncGenerator[Frame]:
        """The trajectory that fills x [B, ...], the first frame being x itself; closing it ends the work."""
        async for frame in self._items(lambda halves: self.model.frames(x, sampling, halves=halves)):
            yield frame

    async def run(self, work: Callable[[Halves], _T]) -> _T:
        """Anything else that asks the network."""

        def once(halves: Halves) -> Iterator[_T]:
            yield work(halves)

        async for item in self._items(once):
            result = item
        return result

    async def _items(self, work: Callable[[Halves], Iterator[_T]]) -> AsyncGenerator[_T]:
        """What `work` yields in a thread of its own, as it comes."""
        loop, items, gone = asyncio.get_running_loop(), asyncio.Queue[Any](), threading.Event()
        end: object = object()

        def say(item: object) -> None:
            if not gone.is_set():
                loop.call_soon_threadsafe(items.put_nowait, item)

        def job() -> None:
            start = time.perf_counter()
            outcome = end
            try:
                with self._batcher.member():
                    for item in work(_Wanted(self._batcher, gone)):
                        say(item)
                        if gone.is_set():
                            break
            except Exception as error:
                outcome = error
            self._ended(time.perf_counter() - start)
            say(outcome)

        self._begin()
        self._pool.submit(job)
        try:
            while (item := await items.get()) is not end:
                if isinstance(item, Exception):
                    raise item
                yield item
        finally:
            gone.set()

    def _begin(self) -> None:
        with self._lock:
            if self.pending >= self.limits.jobs + self.limits.queue:
                raise BusyError(max(1, math.ceil(self.waiting * self._usual / self.limits.jobs)))
            self.pending += 1

    def _ended(self, seconds: float) -> None:
        with self._lock:
            self.pending -= 1
            self._usual += 0.1 * (seconds - self._usual)

    def close(self) -> None:
        """Finish what was begun, and end."""
        self._pool.shutdown(wait=True)
        self._batcher.close()
