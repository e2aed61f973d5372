"""An exponential moving average of the weights, in float32, for evaluation and sampling."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from ..mistakes import require
from .world import copy_into, parameters


class Average:
    """average ← d·average + (1−d)·weights with d = min(decay, (1 + step)/(10 + step)).

    The second bound makes the average follow quickly at the start, so that with a decay of 0.9999 a short run is
    not dominated by the initial weights.
    """

    def __init__(self, module: nn.Module, decay: float = 0.9999):
        require(0 <= decay < 1, "the decay is out of range", got=decay, allowed="0 <= decay < 1", do="use 0.9999")
        self.decay = decay
        self._module = module
        self.weights: dict[str, Tensor] = {n: p.float().clone() for n, p in parameters(module).items()}

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Update the average with the weights after a step (counted from 0)."""
        decay = min(self.decay, (1 + step) / (10 + step))
        current = [p.float() for p in parameters(self._module).values()]
        torch._foreach_lerp_(list(self.weights.values()), current, 1 - decay)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Use the averaged weights in the module for the duration of the block."""
        own = {name: p.clone() for name, p in parameters(self._module).items()}
        self._put(self.weights)
        try:
            yield
        finally:
            self._put(own)

    @torch.no_grad()
    def _put(self, weights: dict[str, Tensor]) -> None:
        for name, parameter in self._module.named_parameters():
            parameter.copy_(weights[name])

    def load(self, weights: dict[str, Tensor]) -> None:
        """Restore a saved average."""
        copy_into(self.weights, weights)
