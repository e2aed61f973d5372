"""The jobs of a model: a bounded number runs, a bounded number waits, and each yields its frames as they are made."""

import asyncio
import math
import threading
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

from torch import Tensor

from ..networks import Halves
from ..run import Model, Sampling
from ..sampling import Frame
from .batcher import Batcher, ServerStoppedError, ignore

_T = TypeVar("_T")
_END: object = object()
"""Marks the end of a job's items."""


@dataclass(frozen=True)
class Limits:
    """The limits of a server."""

    jobs: int = 32
    """Jobs that run at the same time."""
    queue: int = 256
    """Jobs that may wait; beyond that, requests are refused with a time to try again."""
    rows: int = 64
    """Samples in one network call."""
    samples: int = 16
    """Samples in one request."""
    tokens: int = 2048
    """Tokens of one sample, given and new."""
    steps: int = 1024
    body: int = 1 << 20
    """Bytes in a request body."""


class BusyError(Exception):
    """The queue is full."""

    def __init__(self, seconds: int):
        super().__init__(f"too many requests are waiting: try again in {seconds} s")
        self.seconds = seconds


class RequestCancelledError(Exception):
    """The client no longer waits for the result."""


@dataclass(eq=False)
class _Client:
    """A coroutine in the event loop that waits for the items of a job in another thread."""

    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    items: asyncio.Queue[Any] = field(default_factory=asyncio.Queue)
    gone: threading.Event = field(default_factory=threading.Event)

    def say(self, item: object) -> None:
        if not self.gone.is_set():
            self.loop.call_soon_threadsafe(self.items.put_nowait, item)

    def cut_off(self) -> None:
        self.say(ServerStoppedError())
        self.gone.set()


@dataclass(frozen=True)
class _Wanted:
    """The network, usable only while a client waits for the result."""

    batcher: Batcher
    gone: threading.Event

    def features(self, x: Tensor, t: Tensor, label: Tensor | None = None) -> Tensor:
        if self.gone.is_set():
            raise RequestCancelledError
        return self.batcher.features(x, t, label)

    def head(self, features: Tensor) -> Tensor:
        return self.batcher.head(features)


class Engine:
    """Runs the jobs of one model; jobs that run at the same time share network calls."""

    def __init__(self, model: Model, limits: Limits, observe: Callable[[int], object] = ignore):
        self.model, self.limits = model, limits
        self._batcher = Batcher(model.network, model.device, limits.rows, observe)
        self._pool = ThreadPoolExecutor(limits.jobs, thread_name_prefix="job")
        self._lock = threading.Lock()
        self._clients: set[_Client] = set()
        self._stopped = False
        self.pending = 0
        """Running and waiting jobs."""
        self._usual = 1.0
        """Moving average of the seconds per job."""

    @property
    def running(self) -> int:
        return min(self.pending, self.limits.jobs)

    @property
    def waiting(self) -> int:
        return self.pending - self.running

    async def frames(self, x: Tensor, sampling: Sampling) -> AsyncGenerator[Frame]:
        """The trajectory that fills x [B, ...]; the first frame is x itself. Closing the generator ends the work."""
        async for frame in self._items(lambda halves: self.model.frames(x, sampling, halves=halves)):
            yield frame

    async def run(self, work: Callable[[Halves], _T]) -> _T:
        """Run any other work that calls the network."""

        def once(halves: Halves) -> Iterator[_T]:
            yield work(halves)

        async for item in self._items(once):
            result = item
        return result

    async def _items(self, work: Callable[[Halves], Iterator[_T]]) -> AsyncGenerator[_T]:
        """Run `work` in its own thread and yield its items as they are produced."""
        client = _Client()

        def job() -> None:
            start = time.perf_counter()
            outcome = _END
            try:
                with self._batcher.member():
                    for item in work(_Wanted(self._batcher, client.gone)):
                        client.say(item)
                        if client.gone.is_set():
                            break
            except Exception as error:
                outcome = error
            self._ended(time.perf_counter() - start)
            client.say(outcome)

        future = self._begin(job, client)
        try:
            while (item := await client.items.get()) is not _END:
                if isinstance(item, Exception):
                    raise item
                yield item
        finally:
            self._leave(client, future)

    def _begin(self, job: Callable[[], None], client: _Client) -> Future[None]:
        with self._lock:
            if self._stopped:
                raise ServerStoppedError
            if self.pending >= self.limits.jobs + self.limits.queue:
                raise BusyError(max(1, math.ceil(self.waiting * self._usual / self.limits.jobs)))
            future = self._pool.submit(job)
            self.pending += 1
            self._clients.add(client)
        return future

    def _leave(self, client: _Client, future: Future[None]) -> None:
        """The client has left: a running job ends at its next step, and a waiting one never starts."""
        client.gone.set()
        never = future.cancel()
        with self._lock:
            self._clients.discard(client)
            self.pending -= never

    def _ended(self, seconds: float) -> None:
        with self._lock:
            self.pending -= 1
            self._usual += 0.1 * (seconds - self._usual)

    def stop(self) -> None:
        """Send an error to all waiting clients and accept no more jobs."""
        with self._lock:
            self._stopped = True
            for client in self._clients:
                client.cut_off()

    def close(self) -> None:
        """Stop without waiting for running jobs."""
        self.stop()
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._batcher.close()
