"""GenMD4: one masking schedule per token, learned together with the network (Sec. 6)."""

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..core import Draw, Process, Streams, TokenPolynomial, TokenTime, log_q_mask, rloo
from ..core.objective import Rows, TokenDraw, cross_entropy
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

    exponents: tuple[float, ...] = ()
    """w of every token at the start, in the order of the vocabulary; all the same if left out."""
    learned: bool = True
    """Whether w is learned; if not, a step costs as much as one of MD4."""
    weighting: Literal["elbo", "ce"] = "elbo"
    """elbo: the bound; ce: the same weight for each masked token (only where w is not learned)."""
    power: float = 0.5
    """Times t = u^(1/power)."""

    def __post_init__(self) -> None:
        allowed = f"{SMALLEST}..{LARGEST}"
        ok = SMALLEST <= self.initial <= LARGEST
        require(ok, "the first exponent is out of range", got=self.initial, allowed=allowed, do="start at 1")

    def build(self, network: Network) -> "GenMD4 | GivenMD4":
        """The method around a network, which must see the time."""
        return (GenMD4 if self.learned else GivenMD4)(network, self)


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

    def estimator(self) -> TokenTime:
        return self._estimator(self.weights())

    def _estimator(self, w: Tensor) -> TokenTime:
        """With the present exponents; gradients flow to them."""
        return TokenTime(Process(TokenPolynomial(w), self.network.vocab_size))

    def own_parameters(self) -> list[Tensor]:
        return list(self.weights.parameters())


@dataclass(frozen=True)
class TokenCrossEntropy(TokenTime):
    """The same times and masks, each masked token charged its cross-entropy."""

    def draw(
        self, x_0: Tensor, streams: Streams, *, valid: Tensor | None = None, strata: int | None = None
    ) -> TokenDraw:
        draw = super().draw(x_0, streams, valid=valid, strata=strata)
        return replace(draw, weight=torch.full_like(draw.weight, 2.0))

    def losses(self, logits: Tensor, rows: Rows, draw: Draw) -> Tensor:
        return cross_entropy(logits, rows)


class GivenMD4(Method):
    """Exponents that stay as they are: one mask at each time."""

    def __init__(self, network: Network, config: GenMD4Config):
        super().__init__(network)
        w = torch.tensor(config.exponents or [config.initial] * network.vocab_size, dtype=torch.float64)
        self.register_buffer("w", w, persistent=False)
        self._config = config

    def forward(
        self,
        x_0: Tensor,
        streams: Streams,
        *,
        valid: Tensor | None = None,
        label: Tensor | None = None,
        strata: int | None = None,
    ) -> Tensor:
        kind = TokenCrossEntropy if self._config.weighting == "ce" else TokenTime
        estimator = kind(self._process(), power=self._config.power)
        draw = estimator.draw(x_0, streams, valid=valid, strata=strata)
        return self._total(x_0, draw, estimator, self.network.draw_dropout(streams), label)

    def estimator(self) -> TokenTime:
        return TokenTime(self._process())

    def _process(self) -> Process:
        return Process(TokenPolynomial(self.w), self.network.vocab_size)
