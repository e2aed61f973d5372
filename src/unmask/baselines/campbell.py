"""The continuous-time chain of Campbell et al. (2022): a bound over jumps, estimated from one of them.

At time t the state x_t jumps to x̃, with one more token masked, at rate β = −α'/α for each visible token. The bound is
the cost of the reverse jump, β·(visible tokens) · −log R̂(x̃ → x_t) for a random jump, plus the rate Σ R̂(x_t → ·) at
which the model leaves x_t. For masks R̂(x̃ → x_t) = β r μ_d(x̃) and Σ R̂ = β r·(masked tokens) with r = α/(1−α), which
does not depend on the network, so the second evaluation that the general form needs is not required. What remains is

    E_t β · |visible| · −log μ_d(x_d | x̃),   d a random visible token,

MD4's bound, with a network that sees one more masked token: only one token of each sequence has a loss.
"""

from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from ..core import ContinuousTime, Draw, Estimator, Linear, Positions, Process, Streams, lattice
from ..core.objective import cross_entropy
from ..core.points import Spread
from ..networks import Network
from ..training import EstimatorMethod, Needs


@dataclass(frozen=True)
class JumpDraw(Draw):
    """A draw in which only one masked token has a loss."""

    position: Tensor = field(kw_only=True)
    """Position of that token in the flattened sequence [B]."""


@dataclass(frozen=True)
class Jump(Estimator):
    """The doubly stochastic estimate: draws a time, a state, and one jump out of it."""

    process: Process
    spread: Spread = lattice

    def draw(
        self, x_0: Tensor, streams: Streams, *, valid: Tensor | None = None, strata: int | None = None
    ) -> JumpDraw:
        drawn = ContinuousTime(self.process, self.spread).draw(x_0, streams, valid=valid, strata=strata)
        visible = ~drawn.mask if valid is None else ~drawn.mask & valid
        order = streams.uniform(*x_0.shape[1:]).masked_fill(~visible, -1.0).flatten(1)
        position = order.argmax(1)
        jumped = torch.zeros_like(visible).flatten(1).scatter(1, position[:, None], True).view_as(visible) & visible
        schedule = self.process.schedule
        rate = -schedule.dalpha(drawn.t) / schedule.alpha(drawn.t)
        weight = rate * visible.flatten(1).sum(1)
        same = {name: getattr(drawn, name) for name in ("t", "control", "reconstruction", "prior")}
        return JumpDraw(mask=drawn.mask | jumped, weight=weight, position=position, **same)

    def losses(self, logits: Tensor, positions: Positions, draw: Draw) -> Tensor:
        position: Tensor = draw.position  # type: ignore[attr-defined]  # drawn by this class
        charged = positions.index % draw.mask[0].numel() == position[positions.sequence]
        return torch.where(charged, cross_entropy(logits, positions), 0.0)


@dataclass(frozen=True)
class CampbellConfig(Needs):
    """The rate-matrix bound of Campbell et al., estimated doubly stochastically; linear schedule."""

    needs_time: ClassVar[bool] = True

    def build(self, network: Network) -> EstimatorMethod:
        """Build the method for a network."""
        process = Process(Linear(), network.vocab_size)
        return EstimatorMethod(network, Jump(process), recordable=False)
