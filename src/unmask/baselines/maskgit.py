"""MaskGIT's training (Chang et al., 2022): the cosine schedule, with equal weight for all masked tokens.

    L = E_u Σ_{n masked} −log μ_n,   a token masked with probability cos(π u / 2)

is not a bound: for independent uniform tokens it is N·(2/π)·log V, less than their entropy.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ..core import ContinuousTime, Cosine, Draw, EstimatorWrapper, Process, Streams, lattice
from ..networks import Network
from ..training import EstimatorMethod, Needs


@dataclass(frozen=True)
class Unweighted(EstimatorWrapper):
    """Masks of another estimator, with weight 1 for every masked token; not a bound."""

    def draw(self, x_0: Tensor, streams: Streams, *, valid: Tensor | None = None, strata: int | None = None) -> Draw:
        draw = super().draw(x_0, streams, valid=valid, strata=strata)
        none = torch.zeros_like(draw.weight)
        return replace(draw, weight=torch.ones_like(draw.weight), reconstruction=none, prior=none)


@dataclass(frozen=True)
class MaskGITConfig(Needs):
    """MaskGIT: equal weight for all masked tokens, on the cosine schedule; still measured by the bound."""

    def build(self, network: Network) -> EstimatorMethod:
        """Build the method for a network."""
        process = Process(Cosine(), network.vocab_size)
        training = Unweighted(ContinuousTime(process, lattice))
        return EstimatorMethod(network, training)
