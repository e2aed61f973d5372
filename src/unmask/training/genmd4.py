"""GenMD4: one masking schedule per token, learned together with the network (Sec. 6)."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..core import Estimator, Process, Streams, TokenPolynomial, TokenTime, log_q_mask, low_variance, rloo
from ..mistakes import require
from ..networks import Network
from .method import Method, Needs

SMALLEST, LARGEST = 0.2, 5.0
"""Bounds of w: below, times near 0 weigh too much; above, a token hides only at the very end."""


@dataclass(frozen=True)
class GenMD4Config(Needs):
    """GenMD4: α_{t,v} = 1 − t^{w_v}, the exponents learned."""

    needs_time: ClassVar[bool] = True
    """Whether its network must see t: given that a token is hidden, its law depends on when."""
    initial: float = 1.0
    """w of every token at the start; 1 is MD4 with the linear schedule."""

    def __post_init__(self) -> None:
        allowed = f"{SMALLEST}..{LARGEST}"
        ok = SMALLEST <= self.initial <= LARGEST
        require(ok, "the first exponent is out of range", got=self.initial, allowed=allowed, do="start at 1")

    def build(self, network: Network) -> "GenMD4":
        """The method around a network, which must see the time."""
        return GenMD4(network, self)


class LearnedWeights(nn.Module):
    """w = softplus(ρ), kept within [0.2, 5]."""

    def __init__(self, vocab_size: int, initial: float = 1.0):
        super().__init__()
        self.rho = nn.Parameter(torch.full((vocab_size,), math.log(math.expm1(initial)), dtype=torch.float32))

    def forward(self) -> Tensor:
        """The exponents w [V], float64."""
        return F.softplus(self.rho.double()).clamp(SMALLEST, LARGEST)


class GenMD4(Method):
    """Two masks at each time: unbiased for the network and, by the leave-one-out estimator, for w."""

    def __init__(self, network: Network, config: GenMD4Config):
        super().__init__(network)
        require(
            network.sees_time,
            "GenMD4 needs a network that sees the time",
            got="conditioning without time",
            allowed="conditioning.time",
            do="set it",
        )
        self.weights = LearnedWeights(network.vocab_size, config.initial)

    def forward(
        self,
        x_0: Tensor,
        streams: Streams,
        *,
        valid: Tensor | None = None,
        label: Tensor | None = None,
        strata: int | None = None,
    ) -> Tensor:
        w = self.weights()
        estimator = self._estimator(w)
        process, losses, log_q = estimator.process, [], []
        for draw in estimator.draw_pair(x_0, streams, valid=valid, strata=strata):
            losses.append(self._charge(x_0, draw, estimator, self.network.draw_dropout(streams), label, (w,)))
            log_q.append(log_q_mask(process, x_0, draw, valid))
        surrogate = rloo(*(loss.nelbo.total for loss in losses), *log_q)
        return 0.5 * (losses[0].total + losses[1].total) + (surrogate - surrogate.detach()).sum()

    def estimator(self) -> Estimator:
        return low_variance(Process(TokenPolynomial(self.weights().detach()), self.network.vocab_size))

    def _estimator(self, w: Tensor) -> TokenTime:
        """With the present exponents; gradients flow to them."""
        return TokenTime(Process(TokenPolynomial(w), self.network.vocab_size))

    def own_parameters(self) -> list[Tensor]:
        return list(self.weights.parameters())
