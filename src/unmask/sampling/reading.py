"""Networks that read in order, asked about places: what they have read stays read (keys and values are kept)."""

import torch
from torch import Tensor

from ..networks import Past, Transformer


class ReadBlocks:
    """A network that reads block by block, asked about places of one block: finished blocks stay read."""

    def __init__(self, network: Transformer):
        self.calls = 0
        self._network, self.head = network, network.head
        self._finished = torch.empty(0, 0, dtype=torch.int64)
        self._pasts: list[Past] = []

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
            read, self._pasts = 0, [Past() for _ in self._network.blocks]
        for start in range(read, finished.shape[1], self._network.block):
            self._read(finished[:, start : start + self._network.block], start, condition, final=True)
        self._finished = finished

    def _read(self, block: Tensor, start: int, condition: Tensor | None, *, final: bool) -> Tensor:
        for past in self._pasts:
            past.final = final
        return self._network.read(block, self._pasts, start, condition)


class Read:
    """A network that reads in order, asked about places: what it has read stays read."""

    def __init__(self, network: Transformer):
        self.calls = 0
        self._network, self.head = network, network.head
        self._shown = torch.empty(0, 0, dtype=torch.int64)
        self._pasts: list[Past] = []
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
            new = self._network.read(shown[:, start:], self._pasts, start, condition)
            self._known = new if start == 0 else torch.cat([self._known, new], dim=1)
            self._shown = shown
        return self._known[:, :end][where[:, :end]]

    def _forget_unless(self, shown: Tensor) -> None:
        """Begin anew unless what was read is the beginning of what is to be read now."""
        read = self._shown.shape[1]
        if read and len(self._shown) == len(shown) and torch.equal(self._shown[:, : shown.shape[1]], shown[:, :read]):
            return
        self._shown = shown[:, :0]
        self._pasts = [Past() for _ in self._network.blocks]
