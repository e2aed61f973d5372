"""The autoregressive transformer of the same size: nothing is masked, and the network is causal.

−log p(x) = Σ_n −log μ_n(x_n | x_<n), exactly, from one pass over the sequence.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ..core import Draw, Estimator, Linear, Process, Streams
from ..mistakes import require
from ..networks import Network
from ..sampling import CAUSAL
from ..training import Needs, OwnBound


@dataclass(frozen=True)
class ChainRule(Estimator):
    """The exact log-likelihood by the chain rule: the loss of every token, with weight 1."""

    process: Process
    exact: ClassVar[bool] = True

    def draw(self, x_0: Tensor, streams: Streams, *, valid: Tensor | None = None, strata: int | None = None) -> Draw:
        del streams, strata
        every = torch.ones_like(x_0, dtype=torch.bool)
        one = torch.ones(len(x_0), dtype=torch.float64, device=x_0.device)
        none = torch.zeros_like(one)
        count = x_0.numel() if valid is None else None
        return Draw(none, every if valid is None else valid, one, none, none, none, count)

    def network_input(self, x_0: Tensor, draw: Draw) -> Tensor:
        """All tokens: the network itself sees only earlier positions."""
        del draw
        return x_0


@dataclass(frozen=True)
class ARConfig(Needs):
    """Autoregressive: a causal transformer with exact likelihood, sampled from left to right."""

    needs_causal: ClassVar[bool] = True

    def build(self, network: Network) -> "Autoregressive":
        """Build the method for a network."""
        return Autoregressive(network)


class Autoregressive(OwnBound):
    """Predicts all tokens at once, each from those before it."""

    family = CAUSAL

    def __init__(self, network: Network):
        require(
            network.causal,
            "an autoregressive model needs a causal network",
            got=type(network).__name__,
            allowed="a causal transformer",
            do="set network.causal",
        )
        rule = ChainRule(Process(Linear(), network.vocab_size))
        super().__init__(network, rule, rule)
