"""Parameters, operations and memory of a network, counted without running it."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.flop_counter import FlopCounterMode

from ..core import Streams, trusted
from .network import Network

_SAMPLES = 2


@dataclass(frozen=True)
class Cost:
    """The cost of training a network on sequences of one shape."""

    parameters: int
    flops_per_token: float
    """Floating-point operations of a forward and a backward pass, with the head at half of the positions."""
    state_bytes: int
    """Master weights, gradients, two optimiser moments and the moving average, all float32."""
    kept_values: int
    """Number of values kept for the backward pass, per sample."""
    mixed_bytes: float
    """Measured bytes per such value in mixed precision; 4 in float32."""
    vocab_size: int
    positions: int
    """Tokens per sample."""
    shares: dict[str, float]
    """Shares of the operations in matrix products: attention, MLP, head, rest."""

    def memory(self, batch_size: int, mixed: bool, chunk: int = 0) -> int:
        """Approximate peak memory in bytes of training with this batch on one device.

        `chunk`: number of positions whose logits exist at the same time, as logits, probabilities and gradients.
        """
        kept = batch_size * self.kept_values * (self.mixed_bytes if mixed else 4)
        logits = min(chunk, batch_size * self.positions) * self.vocab_size
        return int(self.state_bytes + kept + 4 * logits * (self.mixed_bytes if mixed else 4))


def cost(build: Callable[[], Network], shape: tuple[int, ...]) -> Cost:
    """Count by running passes over tensors that have shapes but no data."""
    with torch.device("meta"), FlopCounterMode(display=False) as counter:  # attention is counted by its matrix products
        network = build()
        with FlopCounterMode(display=False) as forward:
            features = _features(network, shape)
            rows = features.reshape(-1, features.shape[-1])
            answer = network.head(rows[: len(rows) // 2])
        torch.autograd.backward(answer.sum())
    with FakeTensorMode():  # attention as it actually runs, without a matrix of all pairs
        twin = build()
        saved = _SavedBytes(twin)
        with saved:
            _features(twin, shape)
    parameters = sum(p.numel() for p in network.parameters())
    return Cost(
        parameters=parameters,
        flops_per_token=counter.get_total_flops() / math.prod(shape) / _SAMPLES,
        state_bytes=parameters * 4 * 5,
        kept_values=saved.total // _SAMPLES // 4,  # they were counted as float32
        mixed_bytes=network.mixed_bytes,
        vocab_size=network.vocab_size,
        positions=math.prod(shape),
        shares=_shares(forward),
    )


_PARTS = {"attention": "attention", "mlp": "MLP", "output": "head"}
"""From the last part of a module's name to its share."""


def _shares(counter: FlopCounterMode) -> dict[str, float]:
    """The shares of the operations of the layers; operations between positions are in the attention kernels.

    Measured in a forward pass: in a backward pass the attribution of operations to modules is not reliable.
    """
    counts = {module: _of_layers(operations) for module, operations in counter.get_flop_counts().items()}
    found = dict.fromkeys([*_PARTS.values(), "rest"], 0.0)
    for module, operations in counts.items():
        part = _PARTS.get(module.rpartition(".")[2])
        if part is not None:
            found[part] += operations
    found["rest"] = counts["Global"] - sum(found.values())
    return {part: operations / max(1, counts["Global"]) for part, operations in found.items()}


def _of_layers(operations: dict[Any, int]) -> int:
    return sum(count for operation, count in operations.items() if str(operation) in ("aten.mm", "aten.addmm"))


def _features(network: Network, shape: tuple[int, ...]) -> Tensor:
    x, t = torch.zeros(_SAMPLES, *shape, dtype=torch.int64), torch.zeros(_SAMPLES)
    with trusted():  # tensors without data cannot be checked
        return network.features(x, t, None, network.draw_dropout(Streams(0, _SAMPLES, device=x.device)))


class _SavedBytes(torch.autograd.graph.saved_tensors_hooks):
    """Sums the storage of the tensors that autograd keeps, each counted once, without the parameters."""

    def __init__(self, network: nn.Module) -> None:
        self.total = 0
        storages = [p.untyped_storage() for p in network.parameters()]
        self._seen = {storage._cdata: storage for storage in storages}
        super().__init__(self._pack, lambda x: x)

    def _pack(self, x: torch.Tensor) -> torch.Tensor:
        storage = x.untyped_storage()
        if storage._cdata not in self._seen:
            self._seen[storage._cdata] = storage  # keep a reference, so that its address is not reused
            self.total += storage.nbytes()
        return x
