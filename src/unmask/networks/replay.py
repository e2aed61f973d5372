"""A network's features for varying numbers of rows, replayed from CUDA graphs recorded at a few sizes."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ..core.device import on_gpu
from .network import Network

_PLAIN = 2
"""Eager calls of a size before it is recorded: they compile and select kernels, and rare sizes are never recorded."""


class Replayed:
    """A network for inference without gradients; it returns the same values as the original.

    A sampler evaluates only the rows that have changed. Rows are padded to the next of a few sizes, so that a few
    recordings serve every number of rows; the host then launches one graph per call instead of hundreds of kernels.
    Weights may change in place. On a CPU nothing is recorded.
    """

    def __init__(self, network: Network):
        self._features: Callable[..., Tensor] = network.features
        self.head = network.head
        self._seen: Counter[Any] = Counter()
        self._recordings: dict[Any, _Recording] = {}
        self._pool: Any = None

    def features(self, x: Tensor, t: Tensor, label: Tensor | None = None) -> Tensor:
        """Features [R, ..., D] of tokens [R, ...] at times [R] with labels [R]."""
        if not on_gpu(x.device) or torch.is_grad_enabled():
            return self._features(x, t, label)
        rows, inputs = filled_up(len(x)), (x, t, label)
        forms = (None if i is None else (i.shape[1:], i.dtype) for i in inputs)
        key = (rows, torch.is_autocast_enabled("cuda"), *forms)
        self._seen[key] += 1
        if self._seen[key] <= _PLAIN:
            return self._features(*(_filled(i, rows) for i in inputs))[: len(x)]
        if key not in self._recordings:
            self._recordings[key] = _Recording(self._features, [_filled(i, rows) for i in inputs], self._pool)
            self._pool = self._recordings[key].pool
        return self._recordings[key](inputs)


class _Recording:
    def __init__(self, function: Any, inputs: list[Tensor | None], pool: Any):
        self._inputs, self._graph = inputs, torch.cuda.CUDAGraph()
        torch.clear_autocast_cache()  # weights are converted within the recording, since they may change
        with torch.cuda.graph(self._graph, pool=pool, capture_error_mode="thread_local"):
            self._result: Tensor = function(*inputs)
        torch.clear_autocast_cache()
        self.pool = self._graph.pool()

    def __call__(self, inputs: tuple[Tensor | None, ...]) -> Tensor:
        count = 0
        for place, value in zip(self._inputs, inputs, strict=True):
            if place is not None and value is not None:
                count = len(value)
                place[:count].copy_(value)
        self._graph.replay()
        return self._result[:count].clone()  # the next replay overwrites the result


def filled_up(rows: int) -> int:
    """The padded size for this number of rows, at most an eighth larger: 1, 2 … 16, 18 … 32, 36 … 64, 72 …"""
    apart = 1 << max(0, (rows - 1).bit_length() - 4)
    return -(-rows // apart) * apart


def _filled(x: Tensor | None, rows: int) -> Tensor | None:
    return None if x is None else torch.cat([x, x[:1].expand(rows - len(x), *x.shape[1:])])
