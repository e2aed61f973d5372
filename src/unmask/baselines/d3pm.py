"""D3PM with an absorbing state (Austin et al., 2021): the bound of T steps, plus λ times the plain cross-entropy."""

from dataclasses import dataclass, replace
from typing import ClassVar

from torch import Tensor

from ..core import Draw, EstimatorWrapper, Linear, Process, Steps, Streams, uniform_grid
from ..mistakes import require
from ..networks import Network
from ..training import EstimatorMethod, Needs


@dataclass(frozen=True)
class Auxiliary(EstimatorWrapper):
    """Draws of another estimator, with the weight of every masked token increased by λ; the bound if λ = 0."""

    factor: float

    def draw(self, x_0: Tensor, streams: Streams, *, valid: Tensor | None = None, strata: int | None = None) -> Draw:
        draw = super().draw(x_0, streams, valid=valid, strata=strata)
        return replace(draw, weight=draw.weight + self.factor)


@dataclass(frozen=True)
class D3PMConfig(Needs):
    """Absorbing D3PM: T steps on the uniform grid, each masking a token with probability 1/(T − t + 1)."""

    needs_time: ClassVar[bool] = True
    num_steps: int = 1000
    """Number of diffusion steps T."""
    auxiliary: float = 0.001
    """Weight λ of the auxiliary cross-entropy; 0 for the bound alone."""

    def __post_init__(self) -> None:
        require(self.num_steps >= 1, "too few steps", got=self.num_steps, allowed=">= 1", do="use 1000")
        require(self.auxiliary >= 0, "λ is negative", got=self.auxiliary, allowed=">= 0", do="use 0.001")

    def build(self, network: Network) -> EstimatorMethod:
        """Build the method for a network."""
        bound = Steps(Process(Linear(), network.vocab_size), uniform_grid(self.num_steps))
        return EstimatorMethod(network, Auxiliary(bound, self.auxiliary), bound)
