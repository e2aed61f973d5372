"""The learning rate as a function of the step: warm-up, plateau, cooldown."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from ..mistakes import require


@dataclass(frozen=True)
class RateConfig:
    """How the learning rate rises and falls, relative to its peak."""

    warmup: int = 100
    """Steps of linear rise from 0; at most a tenth of all."""
    cooldown: Literal["cosine", "linear", "none"] = "cosine"
    """cosine (over all steps after the warm-up, as in the paper), linear (over the last `cooldown_share`), or none."""
    cooldown_share: float = 0.4
    """The last part of the steps in which a linear cooldown falls."""
    final_rate: float = 0.0
    """Where the cooldown ends."""

    def __post_init__(self) -> None:
        allowed = ", ".join(COOLDOWNS)
        require(
            self.cooldown in COOLDOWNS, "unknown cooldown", got=self.cooldown, allowed=allowed, do="name one of them"
        )
        require(self.warmup >= 0, "the warm-up is negative", got=self.warmup, allowed="steps >= 0", do="use 0 for none")
        require(
            0 < self.cooldown_share <= 1,
            "the share of the cooldown is out of range",
            got=self.cooldown_share,
            allowed="0 < share <= 1",
            do="use 1 to fall from the start",
        )
        within = 0 <= self.final_rate <= 1
        require(within, "the final rate is out of range", got=self.final_rate, allowed="0..1", do="use 0")


def _cosine(progress: float, config: RateConfig) -> float:
    del config
    return 0.5 * (1 + math.cos(math.pi * progress))


def _linear(progress: float, config: RateConfig) -> float:
    return min(1.0, (1 - progress) / config.cooldown_share)


def _none(progress: float, config: RateConfig) -> float:
    del progress, config
    return 1.0


COOLDOWNS: dict[str, Callable[[float, RateConfig], float]] = {"cosine": _cosine, "linear": _linear, "none": _none}


def rate_factor(config: RateConfig, step: int, steps: int) -> float:
    """The learning rate at a step (counted from 0) of `steps`, as a fraction of its peak."""
    warmup = min(config.warmup, steps // 10)
    if step < warmup:
        return (step + 1) / warmup
    progress = min(1.0, (step - warmup) / max(1, steps - warmup))
    return config.final_rate + (1 - config.final_rate) * COOLDOWNS[config.cooldown](progress, config)
