"""The network calls of many samplers, made together.

Each request is a sampler in a thread of its own. When every one of them waits for the network, all that they ask is
computed in as few calls as possible. Whoever comes joins at the next step, whoever is done leaves: continuous batching.
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
"""Rows are computed beside longer ones if they are at least this share of their length: the rest is wasted."""
_FEW = 1 << 20
"""Up to so many logits are computed with those of others: few positions cost a pass over all weights of the head."""
_LAST = 2
"""Seconds that the last network call has when the batcher is closed."""


class ServerStoppedError(Exception):
    """Nothing is computed any more."""

    def __init__(self) -> None:
        super().__init__("the server is being stopped: ask again when it is back")


@dataclass
class _Answer:
    """What a sampler gets when its call is answered."""

    done: threading.Event = field(default_factory=threading.Event)
    result: Tensor = field(default_factory=lambda: torch.empty(0))
    error: BaseException | None = None


@dataclass
class _Call:
    """A sampler asks for features."""

    x: Tensor
    t: Tensor
    label: Tensor | None
    answer: _Answer = field(default_factory=_Answer)


@dataclass
class _HeadCall:
    """A sampler asks for logits."""

    features: Tensor
    answer: _Answer = field(default_factory=_Answer)


_C = TypeVar("_C", _Call, _HeadCall)


class Batcher:
    """A network for many threads at once; results are those of single calls but for rounding."""

    def __init__(self, network: Network, device: torch.device, rows: int = 64, observe: Callable[[int], object] = id):
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
        """Within the block, the others wait for our calls, and only one of us works at a time: many threads that all
        compute a little get into each other's way, and it is little beside what the network computes.
        """
        self._count(1)
        try:
            with self._turn:
                yield
        finally:
            self._count(-1)

    def features(self, x: Tensor, t: Tensor, label: Tensor | None = None) -> Tensor:
        """Features [R, ..., D] of tokens [R, ...] at times [R] with labels [R]; only by a member."""
        return self._ask(_Call(x, t, label))

    def head(self, features: Tensor) -> Tensor:
        """Logits [M, V] from features [M, D]; only by a member."""
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
        """End the thread; whoever still waits for an answer gets none."""
        with self._change:
            self._closed = True
            for call in (*self._waiting, *self._running):
                call.answer.error = ServerStoppedError()
                call.answer.done.set()
            self._change.notify_all()
        self._thread.join(_LAST)  # a call that takes longer ends with the process

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
            for call in calls:  # all at once: whoever goes on takes the cores that the network computes with
                call.answer.done.set()

    def _answer(self, calls: list[_C], compute: Callable[[list[_C]], Iterable[Tensor]]) -> None:
        try:
            with torch.no_grad(), mixed(self._device):
                for call, result in zip(calls, compute(calls), strict=True):
                    call.answer.result = result
        except BaseException as error:  # whoever asked must hear of it, or would wait for ever
            for call in calls:
                call.answer.error = error

    def _heads(self, calls: list[_HeadCall]) -> Iterable[Tensor]:
        """They are few: see `_FEW`."""
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
    """Calls that fit into one: of nearly the same length, with or without labels, at most so many rows unless one
    alone has more.
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
