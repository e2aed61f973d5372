"""GenMD4: one masking schedule per token, learned together with the network (Sec. 6)."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..core import (
    Estimator,
    Process,
    Streams,
    TokenExactK,
    TokenPolynomial,
    TokenTime,
    low_variance,
    rloo,
)
from ..core.points import Spread
from ..mistakes import require
from ..networks import Network
from .method import Method, Needs, spread_of

SMALLEST, LARGEST = 0.2, 5.0
"""Bounds of w: below them times near 0 weigh too much; above them a token is masked only at the very end."""


MASKS: dict[str, Callable[[Process, Spread], TokenExactK | TokenTime]] = {
    "exact-k": TokenExactK,
    "independent": lambda process, spread: TokenTime(process),  # noqa: ARG005
}


@dataclass(frozen=True)
class GenMD4Config(Needs):
    """GenMD4: α_{t,v} = 1 − t^{w_v} with learned exponents w_v."""

    needs_time: ClassVar[bool] = True
    """Whether its network sees t by default: given that a token is masked at t, its distribution depends on t."""
    initial: float = 1.0
    """Initial exponent w of every token; 1 is MD4 with the linear schedule."""
    masks: Literal["exact-k", "independent"] = "independent"
    """independent: each token at its own random time (the paper); exact-k: the k tokens that the race reveals last."""

    def __post_init__(self) -> None:
        allowed = f"{SMALLEST}..{LARGEST}"
        ok = SMALLEST <= self.initial <= LARGEST
        require(ok, "the initial exponent is out of range", got=self.initial, allowed=allowed, do="start at 1")
        known = ", ".join(MASKS)
        require(self.masks in MASKS, "unknown masking", got=self.masks, allowed=known, do="choose one of them")

    def build(self, network: Network) -> "GenMD4":
        """Build the method for a network."""
        return GenMD4(network, self)


class _Within(torch.autograd.Function):
    """x clamped to bounds; outside them only gradients that lead back inside pass, so that no value gets stuck."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, low: float, high: float) -> Tensor:
        ctx.save_for_backward(x <= low, x >= high)
        return x.clamp(low, high)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        below, above = ctx.saved_tensors
        return gradient.masked_fill((below & (gradient > 0)) | (above & (gradient < 0)), 0.0), None, None


class LearnedWeights(nn.Module):
    """w = softplus(ρ), clamped to [0.2, 5]."""

    def __init__(self, vocab_size: int, initial: float = 1.0):
        super().__init__()
        self.rho = nn.Parameter(torch.full((vocab_size,), math.log(math.expm1(initial)), dtype=torch.float32))

    def forward(self) -> Tensor:
        """The exponents w [V], float64."""
        w: Tensor = _Within.apply(F.softplus(self.rho.double()), SMALLEST, LARGEST)  # type: ignore[no-untyped-call]
        return w


class GenMD4(Method):
    """Draws two masks per row: gradients are unbiased for the network and, by the leave-one-out estimator, for w."""

    def __init__(self, network: Network, config: GenMD4Config):
        super().__init__(network)
        self._masks = MASKS[config.masks]
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
        estimator = self._masks(self._process(w), spread_of(strata or len(x_0)))
        losses, log_q, weighed = [], [], []
        for draw in estimator.draw_pair(x_0, streams, valid=valid, strata=strata):
            loss = self._nelbo(x_0, draw, estimator, self.network.draw_dropout(streams), label, (w,))
            losses.append(loss)
            log_q.append(estimator.log_q(x_0, draw, valid, times=self.network.sees_time))
            weighed.append(loss.nelbo.total * _relative(draw.weight))
        surrogate = rloo(*(loss.nelbo.total for loss in losses), *log_q) + 0.5 * (weighed[0] + weighed[1])
        return 0.5 * (losses[0].total + losses[1].total) + (surrogate - surrogate.detach()).sum()

    def estimator(self) -> Estimator:
        return low_variance(self._process(self.weights().detach()))

    def _process(self, w: Tensor) -> Process:
        return Process(TokenPolynomial(w), self.network.vocab_size)

    def own_parameters(self) -> list[Tensor]:
        return list(self.weights.parameters())


def _relative(weight: Tensor) -> Tensor:
    """1, with the gradient of log weight: a race is weighted by 1/W_M, which depends on w."""
    weight = weight.where(weight > 0, 1.0)
    return weight / weight.detach()
