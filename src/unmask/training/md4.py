"""MD4: masked diffusion with one schedule for all tokens (Sec. 3 and 4)."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from ..core import (
    BellK,
    ContinuousTime,
    Cosine,
    Draw,
    Estimator,
    ExactK,
    Geometric,
    KLaw,
    Linear,
    Polynomial,
    PowerK,
    Process,
    Schedule,
    Shifted,
    Streams,
    UniformK,
    lattice,
    low_variance,
    paired,
    stratified,
)
from ..core.points import Spread
from ..mistakes import require
from ..networks import Network
from .method import Method, Needs

SCHEDULES: dict[str, Callable[[float], Schedule]] = {
    "linear": lambda _: Linear(),
    "cosine": lambda _: Cosine(),
    "geometric": lambda _: Geometric(),
    "polynomial": lambda exponent: Polynomial(exponent),
}
MASKS: dict[str, Callable[[Process, KLaw, Spread], Estimator]] = {
    "exact-k": lambda process, law, spread: ExactK(process, spread, law),
    "independent": lambda process, law, spread: ContinuousTime(process, lattice),  # noqa: ARG005
}
"""How masks are drawn; exact-k in pairs where the batch is even, which makes its shape constant."""


def _as_drawn(draw: Draw, tokens: Tensor) -> Draw:
    del tokens
    return draw


def _bound_at_k(draw: Draw, tokens: Tensor) -> Draw:
    """N/k, what the bound charges where k tokens are masked, however often that k is drawn."""
    return replace(draw, weight=tokens / draw.mask.flatten(1).sum(1).clamp(min=1).double())


def _plain(draw: Draw, tokens: Tensor) -> Draw:
    """2 for each masked token: the batch weighs as much as under the bound where half of it is masked on average."""
    del tokens
    return replace(draw, weight=torch.full_like(draw.weight, 2.0))


WEIGHTINGS: dict[str, Callable[[Draw, Tensor], Draw]] = {"elbo": _bound_at_k, "importance": _as_drawn, "ce": _plain}


@dataclass(frozen=True)
class MD4Config(Needs):
    """MD4: which schedule, how masks are drawn, and how their losses are weighted. Evaluation is always the bound."""

    schedule: Literal["linear", "cosine", "geometric", "polynomial"] = "linear"
    """α_t, which says how much is visible at time t."""
    exponent: float = 1.0
    """w of the polynomial schedule 1 − t^w."""
    shift: float = 0.0
    """ε of the shifted schedule; the paper used 1e-4, which exact-k masks do not need."""
    masks: Literal["exact-k", "independent"] = "exact-k"
    """exact-k hides a drawn number of tokens; independent hides each by itself at a drawn time, as the paper does."""
    k_law: Literal["uniform", "power", "bell"] = "uniform"
    """How often which number of tokens is hidden (exact-k)."""
    k_power: float = 0.5
    """q(k) ∝ k^-power."""
    k_bell: tuple[float, float] = (2.0, 2.0)
    """The masked share follows Beta(a, b)."""
    weighting: Literal["elbo", "importance", "ce"] = "elbo"
    """elbo: N/k, the bound if k is uniform; importance: 1/(k q(k)), the bound for every law of k; ce: all the same."""

    def __post_init__(self) -> None:
        for value, allowed, what in (
            (self.schedule, SCHEDULES, "schedule"),
            (self.masks, MASKS, "way to mask"),
            (self.k_law, ("uniform", "power", "bell"), "law of k"),
            (self.weighting, WEIGHTINGS, "weighting"),
        ):
            require(value in allowed, f"unknown {what}", got=value, allowed=", ".join(allowed), do="name one of them")
        require(
            self.k_law == "uniform" or self.masks == "exact-k",
            "independent masks have no law of k",
            got=f"k_law {self.k_law}",
            allowed="uniform",
            do="use exact-k masks",
        )
        self.law()

    def law(self) -> KLaw:
        """q(k)."""
        laws: dict[str, KLaw] = {"uniform": UniformK(), "power": PowerK(self.k_power), "bell": BellK(*self.k_bell)}
        return laws[self.k_law]

    def build(self, network: Network) -> "MD4":
        """The method around a network."""
        schedule = SCHEDULES[self.schedule](self.exponent)
        return MD4(network, self, Shifted(schedule, self.shift) if self.shift else schedule)


class MD4(Method):
    """A weighted cross-entropy at the masked positions."""

    def __init__(self, network: Network, config: MD4Config, schedule: Schedule):
        super().__init__(network)
        self.process = Process(schedule, network.vocab_size)
        self._even = MASKS[config.masks](self.process, config.law(), paired)
        self._odd = MASKS[config.masks](self.process, config.law(), stratified)
        bound_as_drawn = config.weighting == "elbo" and config.k_law == "uniform"
        self._weigh = _as_drawn if bound_as_drawn else WEIGHTINGS[config.weighting]

    def forward(
        self,
        x_0: Tensor,
        streams: Streams,
        *,
        valid: Tensor | None = None,
        label: Tensor | None = None,
        strata: int | None = None,
    ) -> Tensor:
        estimator = self._even if (strata or len(x_0)) % 2 == 0 else self._odd
        draw = estimator.draw(x_0, streams, valid=valid, strata=strata)
        tokens = (draw.mask.new_ones(draw.mask.shape) if valid is None else valid).flatten(1).sum(1)
        draw = self._weigh(draw, tokens)
        return self._total(x_0, draw, estimator, self.network.draw_dropout(streams), label)

    def estimator(self) -> Estimator:
        return low_variance(self.process)
