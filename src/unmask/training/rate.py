"""The learning rate as a function of the step: warm-up, plateau, cooldown."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from ..mistakes import require


@dataclass(frozen=True)
class RateConfig:
    """The learning-rate schedule, relative to the peak rate."""

    warmup: int = 100
    """Steps of linear warm-up from 0; at most a tenth of all steps."""
    cooldown: Literal["cosine", "linear", "none"] = "cosine"
    """Decay to the final rate: cosine (from the warm-up on, as in the paper), linear (the cooldown share), or none."""
    cooldown_share: float = 0.4
    """Length of a linear cooldown, as a fraction of the steps after the warm-up."""
    final_rate: float = 0.0
    """Learning rate at the end of the cooldown, as a fraction of the peak."""

    def __post_init__(self) -> None:
        allowed = ", ".join(COOLDOWNS)
        require(
            self.cooldown in COOLDOWNS, "unknown cooldown", got=self.cooldown, allowed=allowed, do="choose one of them"
        )
        require(self.warmup >= 0, "the warm-up is negative", got=self.warmup, allowed="steps >= 0", do="use 0 for none")
        require(
            0 < self.cooldown_share <= 1,
            "the cooldown share is out of range",
            got=self.cooldown_share,
            allowed="0 < share <= 1",
            do="use 1 to decay from the end of the warm-up",
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
