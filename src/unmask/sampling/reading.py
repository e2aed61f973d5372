"""Readers: query a network about positions and reuse earlier work, either unchanged rows or keys and values."""

from collections.abc import Callable

import torch
from torch import Tensor

from ..core import Denoiser
from ..networks import Halves, KVCache, Network, Transformer


class PlainReader:
    """Features [M, D] at positions of any denoiser; the body runs once per row that changed."""

    def __init__(self, denoiser: Denoiser | Network, cached: bool, halves: Halves | None):
        self.calls = 0
        self._cached, self._time = cached, torch.float64
        self._body: Callable[..., Tensor] = denoiser
        self.head: Callable[[Tensor], Tensor] = lambda logits: logits
        if isinstance(denoiser, Network):
            halves = halves or denoiser
            self._body, self.head, self._time = halves.features, halves.head, torch.float32
        self._seen: Tensor | None = None
        self._known = torch.empty(0)

    def __call__(self, x: Tensor, t: Tensor, condition: Tensor | None, where: Tensor, *, keep: bool) -> Tensor:
        asked = where.flatten(1).any(1)
        rows = asked.nonzero()[:, 0]
        if not len(rows):
            return torch.zeros(0, 1, device=x.device)
        if not (self._cached and keep):
            return self._run(x, t, condition, rows)[where[rows]]
        fresh = asked if self._seen is None else asked & (self._seen != x).flatten(1).any(1)
        stale = fresh.nonzero()[:, 0]
        if len(stale):
            self._remember(x, stale, self._run(x, t, condition, stale))
        return self._known[where]

    def _run(self, x: Tensor, t: Tensor, condition: Tensor | None, rows: Tensor) -> Tensor:
        self.calls += len(rows)
        return self._body(x[rows], t[rows].to(self._time), None if condition is None else condition[rows])

    def _remember(self, x: Tensor, rows: Tensor, values: Tensor) -> None:
        if self._seen is None:
            self._seen = torch.full_like(x, -1)  # not a token: nothing is cached
            self._known = values.new_zeros(len(x), *values.shape[1:])
        self._seen[rows], self._known[rows] = x[rows], values


class CachedBlockReader:
    """Features at positions of one block, from a network that reads block by block: finished blocks stay cached."""

    def __init__(self, network: Transformer):
        self.calls = 0
        self._network, self.head = network, network.head
        self._finished = torch.empty(0, 0, dtype=torch.int64)
        self._caches: list[KVCache] = []

    def __call__(self, x: Tensor, t: Tensor, condition: Tensor | None, where: Tensor, *, keep: bool) -> Tensor:
        del t, keep  # it does not see the time
        self.calls += int(where.any(1).sum())
        asked = where.any(0).nonzero()
        if not len(asked):
            return torch.zeros(0, 1, device=x.device)
        size = self._network.block
        start = int(asked.max()) // size * size
        self._read_up_to(x[:, :start], condition)
        inside = slice(start, start + size)
        return self._read(x[:, inside], start, condition, final=False)[where[:, inside]]

    def _read_up_to(self, finished: Tensor, condition: Tensor | None) -> None:
        read = self._finished.shape[1]
        if not read or read > finished.shape[1] or not torch.equal(self._finished, finished[:, :read]):
            read, self._caches = 0, [KVCache() for _ in self._network.blocks]
        for start in range(read, finished.shape[1], self._network.block):
            self._read(finished[:, start : start + self._network.block], start, condition, final=True)
        self._finished = finished

    def _read(self, block: Tensor, start: int, condition: Tensor | None, *, final: bool) -> Tensor:
        for cache in self._caches:
            cache.final = final
        return self._network.read(block, self._caches, start, condition)


class CachedReader:
    """Features at positions, from a network that reads in order: the tokens that it has read stay cached."""

    def __init__(self, network: Transformer):
        self.calls = 0
        self._network, self.head = network, network.head
        self._shown = torch.empty(0, 0, dtype=torch.int64)
        self._caches: list[KVCache] = []
        self._known = torch.empty(0)

    def __call__(self, x: Tensor, t: Tensor, condition: Tensor | None, where: Tensor, *, keep: bool) -> Tensor:
        del t, keep  # it does not see the time
        self.calls += int(where.flatten(1).any(1).sum())
        asked = where.flatten(1).any(0).nonzero()
        if not len(asked):
            return torch.zeros(0, 1, device=x.device)
        end = int(asked.max()) + 1
        shown = self._network.shifted(x)[:, :end]
        self._forget_unless(shown)
        start = self._shown.shape[1]
        if start < end:
            new = self._network.read(shown[:, start:], self._caches, start, condition)
            self._known = new if start == 0 else torch.cat([self._known, new], dim=1)
            self._shown = shown
        return self._known[:, :end][where[:, :end]]

    def _forget_unless(self, shown: Tensor) -> None:
        """Clear the cache unless the tokens read so far are a prefix of those to read now."""
        read = self._shown.shape[1]
        if read and len(self._shown) == len(shown) and torch.equal(self._shown[:, : shown.shape[1]], shown[:, :read]):
            return
        self._shown = shown[:, :0]
        self._caches = [KVCache() for _ in self._network.blocks]


Reader = PlainReader | CachedReader | CachedBlockReader


def reader_for(denoiser: Denoiser | Network, cached: bool, halves: Halves | None) -> Reader:
    """Choose by what the network caches: whole rows, or what it has read of them."""
    if cached and isinstance(denoiser, Transformer) and (denoiser.causal or denoiser.block):
        return CachedReader(denoiser) if denoiser.causal else CachedBlockReader(denoiser)
    return PlainReader(denoiser, cached, halves)
