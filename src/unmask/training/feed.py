"""Batches, read one step ahead in a background thread and copied to the device asynchronously."""

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..core.device import on_gpu
from ..data import Batch, Split
from .world import World


@dataclass(frozen=True)
class DeviceBatch:
    """A batch on the device."""

    x_0: Tensor
    valid: Tensor | None
    label: Tensor | None
    rows: NDArray[np.int64]
    """Row numbers within the data, for error messages."""
    tokens: int
    """Number of tokens that are not padding, over all ranks."""


@dataclass(frozen=True)
class _Host:
    """A batch in host memory, pinned if the device is a GPU."""

    tensors: tuple[Tensor | None, Tensor | None, Tensor | None]
    rows: NDArray[np.int64]
    tokens: int


class Feed:
    """A rank's share of the training batches of a split, as a function of the step."""

    def __init__(self, split: Split, seed: int, batch_size: int, device: torch.device, world: World):
        self.split, self.seed, self.batch_size, self.device, self.world = split, seed, batch_size, device, world
        self._reader = ThreadPoolExecutor(1, "unmask-feed")
        self._ahead: tuple[int, Future[_Host]] | None = None

    def batch(self, step: int) -> DeviceBatch:
        """The batch of a step; reading of the next one starts in the background."""
        ready = self._ahead[1] if self._ahead is not None and self._ahead[0] == step else None
        host = self._read(step) if ready is None else ready.result()
        self._ahead = step + 1, self._reader.submit(self._read, step + 1)
        x_0, valid, label = (None if t is None else t.to(self.device, non_blocking=True) for t in host.tensors)
        return DeviceBatch(x_0, valid, label, host.rows, host.tokens)  # type: ignore[arg-type]  # tokens are never None

    def _read(self, step: int) -> _Host:
        world = self.world
        batch: Batch = self.split.batch(self.seed, step, self.batch_size, world.rank, world.size)
        tokens = self.split.count(self.seed, step, self.batch_size)
        return _Host(
            (self._pinned(batch.tokens), self._pinned(batch.valid), self._pinned(batch.labels)), batch.rows, tokens
        )

    def _pinned(self, array: NDArray[np.generic] | None) -> Tensor | None:
        if array is None:
            return None
        tensor = torch.from_numpy(array)
        return tensor.pin_memory() if on_gpu(self.device) else tensor
