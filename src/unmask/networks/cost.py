"""Parameters, operations and memory of a network, counted without running it."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from .network import Network


@dataclass(frozen=True)
class Cost:
    """What a network costs to train on sequences of one shape."""

    parameters: int
    flops_per_token: float
    """Floating-point operations of a forward and a backward pass, the head at half of the positions."""
    state_bytes: int
    """Master weights, gradients, two optimiser moments and the moving average, all float32."""
    kept_values: int
    """Numbers that the backward pass keeps of one sample."""
    mixed_bytes: int
    """Bytes of such a number in mixed precision; 4 in float32."""

    def memory(self, batch_size: int, mixed: bool) -> int:
        """About how many bytes training takes with this batch on one device."""
        return self.state_bytes + batch_size * self.kept_values * (self.mixed_bytes if mixed else 4)


def cost(build: Callable[[], Network], shape: tuple[int, ...]) -> Cost:
    """Count by a pass over tensors that have shapes but no data (the meta device)."""
    with torch.device("meta"):
        network = build()
        x = torch.zeros(2, *shape, dtype=torch.int64)
        t, label = torch.zeros(2), None
        saved = _SavedBytes()
        with FlopCounterMode(display=False) as counter, saved:
            features = network.features(x, t, label)
            rows = features.reshape(-1, features.shape[-1])[: x.numel() // 2]
            torch.autograd.backward(network.head(rows).sum())
    parameters = sum(p.numel() for p in network.parameters())
    kept = saved.total - sum(p.numel() * p.element_size() for p in network.parameters())
    kept_values = max(0, kept) // len(x) // 4  # float32 was counted
    flops = counter.get_total_flops() / x.numel()
    return Cost(parameters, flops, parameters * 4 * 5, kept_values, network.mixed_bytes)


class _SavedBytes(torch.autograd.graph.saved_tensors_hooks):
    """Adds up the storage of what autograd keeps, each tensor once."""

    def __init__(self) -> None:
        self.total = 0
        self._seen: set[int] = set()
        super().__init__(self._pack, lambda x: x)

    def _pack(self, x: torch.Tensor) -> torch.Tensor:
        key = id(x.untyped_storage())
        if not isinstance(x, nn.Parameter) and key not in self._seen:
            self._seen.add(key)
            self.total += x.numel() * x.element_size()
        return x
