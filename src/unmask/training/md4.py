"""MD4: masked diffusion with one schedule for all tokens (Sec. 3 and 4) or a given one for each token (Sec. 6)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from ..configs import YOURS
from ..core import (
    BellK,
    Cosine,
    Estimator,
    Geometric,
    KLaw,
    Linear,
    Polynomial,
    PowerK,
    Process,
    Schedule,
    Shifted,
    Streams,
    TokenPolynomial,
    UniformK,
    at_times,
    exact_k_of,
    low_variance,
)
from ..core.points import Spread
from ..mistakes import require
from ..networks import Network
from .method import Method, Needs, spread_of
from .weighting import WEIGHTINGS

SCHEDULES: dict[str, Callable[[float], Schedule]] = {
    "linear": lambda _: Linear(),
    "cosine": lambda _: Cosine(),
    "geometric": lambda _: Geometric(),
    "polynomial": lambda exponent: Polynomial(exponent),
}
MASKS: dict[str, Callable[[Process, Spread, KLaw], Estimator]] = {
    "exact-k": exact_k_of,
    "independent": lambda process, spread, law: at_times(process),  # noqa: ARG005
}
"""The ways of drawing masks, by name."""

POWERS: dict[str, Callable[[float], float]] = {"linear": lambda _: 1.0, "polynomial": lambda exponent: exponent}
"""w of the schedules of the form 1 − t^w."""
Exponents = tuple[tuple[int, float], ...]
EXTREME = 1e6
"""The largest exponent allowed: such a token is revealed before all others."""


K_LAWS: dict[str, Callable[["MD4Config"], KLaw]] = {
    "uniform": lambda _: UniformK(),
    "power": lambda config: PowerK(config.k_power),
    "bell": lambda config: BellK(*config.k_bell),
}
"""The distributions of the number of masked tokens, by name."""
_LEAST = 0.1
"""The smallest exponent for independent masks: their times u^(2/w) would leave the range of float32 below."""


@dataclass(frozen=True)
class MD4Config(Needs):
    """MD4: the schedule, how masks are drawn, and how losses are weighted. Evaluation always uses the bound."""

    schedule: str = "linear"
    """Schedule α_t, the share of tokens visible at time t: linear, cosine, geometric, polynomial, or your own."""
    exponent: float = 1.0
    """Exponent w of the polynomial schedule 1 − t^w."""
    exponents: Exponents = ()
    """Tokens with their own exponent, as pairs (token, w): GenMD4 with fixed w. A larger w reveals a token earlier."""
    shift: float = 0.0
    """ε of the shifted schedule, 0 for none; the paper used 1e-4, which exact-k masks do not need."""
    masks: Literal["exact-k", "independent"] = "exact-k"
    """exact-k: mask a randomly drawn number of tokens; independent (the paper): each on its own, at a random time."""
    k_law: Literal["uniform", "power", "bell"] = "uniform"
    """Distribution q(k) of the number k of masked tokens, for exact-k masks."""
    k_power: float = 0.5
    """Exponent of the power law, q(k) ∝ k^-power."""
    k_bell: tuple[float, float] = (2.0, 2.0)
    """a and b of the bell law: the masked share follows Beta(a, b)."""
    weighting: Literal["elbo", "importance", "ce"] = "elbo"
    """elbo: N/k, the bound for uniform k; importance: 1/(k q(k)), the bound for any q; ce: the same weight for all."""
    # With exponents, ce weights all alike only as nearly as the learned distribution allows.

    def __post_init__(self) -> None:
        name, known = self.schedule, ", ".join(SCHEDULES)
        require(name in SCHEDULES, "unknown schedule", got=name, allowed=known, do=YOURS)
        for value, allowed, what in (
            (self.masks, MASKS, "masking"),
            (self.k_law, K_LAWS, "k_law"),
            (self.weighting, WEIGHTINGS, "weighting"),
        ):
            require(value in allowed, f"unknown {what}", got=value, allowed=", ".join(allowed), do="choose one of them")
        require(
            self.k_law == "uniform" or self.masks == "exact-k",
            "k_law applies to exact-k masks only",
            got=f"k_law {self.k_law}",
            allowed="uniform",
            do="use exact-k masks",
        )
        self.law()
        self.shifted(SCHEDULES[self.schedule](self.exponent))
        if self.exponents:
            self._check_exponents()

    def _check_exponents(self) -> None:
        of_t = self.schedule in POWERS and not self.shift
        allowed = f"{' or '.join(POWERS)}, without a shift"
        got = f"{self.schedule}, shift {self.shift:g}"
        require(of_t, "exponents do not fit the schedule", got=got, allowed=allowed, do="omit the exponents")
        tokens, w = zip(*self.exponents, strict=True)
        once = len(set(tokens)) == len(tokens)
        require(once, "a token has two exponents", got=tokens, allowed="each token once", do="remove one")
        low = _LEAST if self.masks == "independent" else 1 / EXTREME
        for value in w:
            good, allowed = low <= value <= EXTREME, f"{low:g}..{EXTREME:g} with {self.masks} masks"
            require(good, "an exponent is out of range", got=value, allowed=allowed, do="pass one in this range")

    def law(self) -> KLaw:
        """q(k)."""
        return K_LAWS[self.k_law](self)

    def shifted(self, schedule: Schedule) -> Schedule:
        """The schedule with the shift applied, if there is one."""
        return Shifted(schedule, self.shift) if self.shift else schedule

    def w(self, vocab_size: int) -> Tensor | None:
        """The exponents of all tokens [V] if some have their own, else None."""
        if not self.exponents:
            return None
        tokens, own = zip(*self.exponents, strict=True)
        require(
            min(tokens) >= 0 and max(tokens) < vocab_size,
            "an exponent is given for an unknown token",
            got=f"tokens {min(tokens)}..{max(tokens)}",
            allowed=f"0..{vocab_size - 1}",
            do="use the token ids of the vocabulary",
        )
        w = torch.full((vocab_size,), POWERS[self.schedule](self.exponent), dtype=torch.float64)
        w[list(tokens)] = torch.tensor(own, dtype=torch.float64)
        return w

    def build(self, network: Network) -> "MD4":
        """Build the method for a network."""
        return MD4(network, self)


class MD4(Method):
    """A weighted cross-entropy at the masked positions."""

    w: Tensor | None
    """The exponents of all tokens [V] if some have their own, else None."""

    def __init__(self, network: Network, config: MD4Config):
        super().__init__(network)
        self.config = config
        self.register_buffer("w", config.w(network.vocab_size), persistent=False)

    def forward(
        self,
        x_0: Tensor,
        streams: Streams,
        *,
        valid: Tensor | None = None,
        label: Tensor | None = None,
        strata: int | None = None,
    ) -> Tensor:
        estimator = self._training(spread_of(strata or len(x_0)))
        draw = estimator.draw(x_0, streams, valid=valid, strata=strata)
        return self._total(x_0, draw, estimator, self.network.draw_dropout(streams), label)

    def _training(self, spread: Spread) -> Estimator:
        config, law = self.config, self.config.law()
        return WEIGHTINGS[config.weighting](MASKS[config.masks](self.process, spread, law), law)

    def estimator(self) -> Estimator:
        return low_variance(self.process)

    @property
    def process(self) -> Process:
        """The masking process, with its exponents on the device of the network."""
        config, w = self.config, self.w
        schedule = SCHEDULES[config.schedule](config.exponent) if w is None else TokenPolynomial(w)
        return Process(config.shifted(schedule), self.network.vocab_size)
