"""MaskGIT's training (Chang et al., 2022): masked tokens on the cosine schedule, each charged alike.

    L = E_u Σ_{n masked} −log μ_n,   a token masked with probability cos(π u / 2)

is no bound: of independent uniform tokens it costs N·(2/π)·log V, less than their entropy.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ..core import ContinuousTime, Cosine, Draw, EstimatorWrapper, Process, Streams, lattice
from ..networks import Network
from ..training import EstimatorMethod, Needs


@dataclass(frozen=True)
class Unweighted(EstimatorWrapper):
    """Another estimator's masks, every hidden token charged once; not a bound."""

    def draw(self, x_0: Tensor, streams: Streams, *, valid: Tensor | None = None, strata: int | None = None) -> Draw:
        draw = super().draw(x_0, streams, valid=valid, strata=strata)
        none = torch.zeros_like(draw.weight)
        return replace(draw, weight=torch.ones_like(draw.weight), reconstruction=none, prior=none)


@dataclass(frozen=True)
class MaskGITConfig(Needs):
    """MaskGIT: every masked token charged alike, on the cosine schedule; measured by the bound all the same."""

    def build(self, network: Network) -> EstimatorMethod:
        """The method around a network."""
        process = Process(Cosine(), network.vocab_size)
        training = Unweighted(ContinuousTime(process, lattice))
        return EstimatorMethod(network, training)
