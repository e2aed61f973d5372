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
    """What a network costs to train on sequences of one shape."""

    parameters: int
    flops_per_token: float
    """Floating-point operations of a forward and a backward pass, the head at half of the positions."""
    state_bytes: int
    """Master weights, gradients, two optimiser moments and the moving average, all float32."""
    kept_values: int
    """Numbers that the backward pass keeps of one sample."""
    mixed_bytes: float
    """Bytes of such a number in mixed precision, measured; 4 in float32."""
    vocab_size: int
    positions: int
    """Tokens per sample."""
    shares: dict[str, float]
    """Of the operations in matrix products: attention, MLP, head, rest."""

    def memory(self, batch_size: int, mixed: bool, chunk: int = 0) -> int:
        """About how many bytes training takes at most with this batch on one device.

        `chunk`: how many positions have logits at the same time; they exist as such, as probabilities and as gradients.
        """
        kept = batch_size * self.kept_values * (self.mixed_bytes if mixed else 4)
        logits = min(chunk, batch_size * self.positions) * self.vocab_size
        return int(self.state_bytes + kept + 4 * logits * (self.mixed_bytes if mixed else 4))


def cost(build: Callable[[], Network], shape: tuple[int, ...]) -> Cost:
    """Count by passes over tensors that have shapes but no data."""
    with torch.device("meta"), FlopCounterMode(display=False) as counter:  # attention by its matrix products
        network = build()
        with FlopCounterMode(display=False) as forward:
            features = _features(network, shape)
            rows = features.reshape(-1, features.shape[-1])
            answer = network.head(rows[: len(rows) // 2])
        torch.autograd.backward(answer.sum())
    with FakeTensorMode():  # attention as it runs, without a matrix of all pairs
        twin = build()
        saved = _SavedBytes(twin)
        with saved:
            _features(twin, shape)
    parameters = sum(p.numel() for p in network.parameters())
    return Cost(
        parameters=parameters,
        flops_per_token=counter.get_total_flops() / math.prod(shape) / _SAMPLES,
        state_bytes=parameters * 4 * 5,
        kept_values=saved.total // _SAMPLES // 4,  # float32 was counted
        mixed_bytes=network.mixed_bytes,
        vocab_size=network.vocab_size,
        positions=math.prod(shape),
        shares=_shares(forward),
    )


_PARTS = {"attention": "attention", "mlp": "MLP", "output": "head"}
"""The last name of a module, and what it is part of."""


def _shares(counter: FlopCounterMode) -> dict[str, float]:
    """How the operations of the layers divide; those between positions are attention's own kernels.

    Of a forward pass: in a backward pass it is not certain which module an operation is booked under.
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
    with trusted():  # numbers without values cannot be looked at
        return network.features(x, t, None, network.draw_dropout(Streams(0, _SAMPLES, device=x.device)))


class _SavedBytes(torch.autograd.graph.saved_tensors_hooks):
    """Adds up the storage of what autograd keeps, each tensor once, the parameters left out."""

    def __init__(self, network: nn.Module) -> None:
        self.total = 0
        storages = [p.untyped_storage() for p in network.parameters()]
        self._seen = {storage._cdata: storage for storage in storages}
        super().__init__(self._pack, lambda x: x)

    def _pack(self, x: torch.Tensor) -> torch.Tensor:
        storage = x.untyped_storage()
        if storage._cdata not in self._seen:
            self._seen[storage._cdata] = storage  # held, so that its address is not used again
            self.total += storage.nbytes()
        return x
