"""Batches the network calls of many samplers.

Each request runs a sampler in its own thread. Once all of them wait for the network, their inputs are computed in as
few calls as possible. New requests join at the next step and finished ones leave: continuous batching.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

import torch
from torch import Tensor

from ..core.device import mixed
from ..networks import Network, Replayed

_RAGGED = 0.75
"""Rows are batched with longer ones if they have at least this share of their length; the padding is wasted."""
_FEW = 1 << 20
"""Head calls of up to this many logits are batched: even few positions cost a pass over all weights of the head."""
_LAST = 2
"""Seconds to wait for the last network call when the batcher is closed."""


class ServerStoppedError(Exception):
    """The server is shutting down and computes nothing more."""

    def __init__(self) -> None:
        super().__init__("the server is shutting down: try again when it is back")


@dataclass
class _Answer:
    """The result of a sampler's call."""

    done: threading.Event = field(default_factory=threading.Event)
    result: Tensor = field(default_factory=lambda: torch.empty(0))
    error: BaseException | None = None


@dataclass
class _Call:
    """A sampler's request for features."""

    x: Tensor
    t: Tensor
    label: Tensor | None
    answer: _Answer = field(default_factory=_Answer)


@dataclass
class _HeadCall:
    """A sampler's request for logits."""

    features: Tensor
    answer: _Answer = field(default_factory=_Answer)


_C = TypeVar("_C", _Call, _HeadCall)


def ignore(_: object) -> None:
    """What is done with news that nobody asked for."""


class Batcher:
    """A network shared by many threads; results equal those of single calls up to rounding."""

    def __init__(
        self, network: Network, device: torch.device, rows: int = 64, observe: Callable[[int], object] = ignore
    ):
        self._network, self._device, self._rows, self._observe = network, device, rows, observe
        self._replayed = Replayed(network)
        self._ragged = network.ragged
        self._change, self._turn = threading.Condition(), threading.Lock()
        self._waiting: list[_Call | _HeadCall] = []
        self._running: list[_Call | _HeadCall] = []
        self._members = 0
        self._closed = False
        self._thread = threading.Thread(target=self._serve, name="network", daemon=True)
        self._thread.start()

    @contextmanager
    def member(self) -> Iterator[None]:
        """Within the block, the other members wait for our calls, and only one member works at a time: many threads
        that each compute a little slow each other down, and their work is small compared with the network's.
        """
        self._count(1)
        try:
            with self._turn:
                yield
        finally:
            self._count(-1)

    def features(self, x: Tensor, t: Tensor, label: Tensor | None = None) -> Tensor:
        """Features [R, ..., D] of tokens [R, ...] at times [R] with labels [R]; call only as a member."""
        return self._ask(_Call(x, t, label))

    def head(self, features: Tensor) -> Tensor:
        """Logits [M, V] from features [M, D]; call only as a member."""
        many = len(features) * self._network.vocab_size > _FEW
        return self._network.head(features) if many else self._ask(_HeadCall(features))

    def _ask(self, call: _Call | _HeadCall) -> Tensor:
        answer = call.answer
        self._turn.release()
        try:
            with self._change:
                if self._closed:
                    raise ServerStoppedError
                self._waiting.append(call)
                self._change.notify_all()
            answer.done.wait()
        finally:
            self._turn.acquire()
        if answer.error is not None:
            raise answer.error
        return answer.result

    def close(self) -> None:
        """End the thread; calls that still wait get an error."""
        with self._change:
            self._closed = True
            for call in (*self._waiting, *self._running):
                call.answer.error = ServerStoppedError()
                call.answer.done.set()
            self._change.notify_all()
        self._thread.join(_LAST)  # a longer call ends with the process

    def _count(self, change: int) -> None:
        with self._change:
            self._members += change
            self._change.notify_all()

    def _serve(self) -> None:
        while True:
            with self._change:
                self._change.wait_for(lambda: self._closed or (self._waiting and len(self._waiting) >= self._members))
                if self._closed:
                    return
                calls, self._waiting = self._waiting, []
                self._running = calls
            bodies = [call for call in calls if isinstance(call, _Call)]
            heads = [call for call in calls if isinstance(call, _HeadCall)]
            for group in grouped(bodies, self._rows, self._ragged):
                self._answer(group, self._features)
            if heads:
                self._answer(heads, self._heads)
            for call in calls:  # all at once: a sampler that resumes takes the cores that the network computes on
                call.answer.done.set()

    def _answer(self, calls: list[_C], compute: Callable[[list[_C]], Iterable[Tensor]]) -> None:
        try:
            with torch.no_grad(), mixed(self._device):
                for call, result in zip(calls, compute(calls), strict=True):
                    call.answer.result = result
        except BaseException as error:  # the callers must get it, or they would wait forever
            for call in calls:
                call.answer.error = error

    def _heads(self, calls: list[_HeadCall]) -> Iterable[Tensor]:
        """Only calls with few logits get here: see `_FEW`."""
        found = self._network.head(torch.cat([call.features for call in calls]))
        return torch.split(found, [len(call.features) for call in calls])

    def _features(self, calls: list[_Call]) -> Iterable[Tensor]:
        found = self._of_all(calls)
        self._observe(len(found))
        rows = torch.split(found, [len(call.x) for call in calls])
        return [own[:, : call.x.shape[1]] for own, call in zip(rows, calls, strict=True)]

    def _of_all(self, calls: list[_Call]) -> Tensor:
        longest = max(call.x.shape[1] for call in calls)
        t = torch.cat([call.t for call in calls])
        label = None if calls[0].label is None else torch.cat([call.label for call in calls])  # type: ignore[misc]
        if all(call.x.shape[1] == longest for call in calls):
            return self._replayed.features(torch.cat([call.x for call in calls]), t, label)
        x = torch.cat([torch.nn.functional.pad(call.x, (0, longest - call.x.shape[1])) for call in calls])
        lengths = torch.cat([torch.full((len(call.x),), call.x.shape[1], device=x.device) for call in calls])
        features: Tensor = self._network.features(x, t, label, lengths=lengths)  # type: ignore[call-arg]  # see _ragged
        return features


def grouped(calls: list[_Call], rows: int, ragged: bool) -> Iterator[list[_Call]]:
    """Group calls that can be computed together: of similar length, all with or all without labels, with at most
    `rows` rows unless a single call has more.
    """
    group: list[_Call] = []
    for call in sorted(calls, key=lambda call: (call.label is None, call.x.shape[1]), reverse=True):
        if group:
            first = group[0]
            length, longest = call.x.shape[1], first.x.shape[1]
            fits = call.x.shape[1:] == first.x.shape[1:] or (ragged and length >= _RAGGED * longest)
            alike = (call.label is None) == (first.label is None)
            if not (fits and alike and sum(len(other.x) for other in group) + len(call.x) <= rows):
                yield group
                group = []
        group.append(call)
    if group:
        yield group
