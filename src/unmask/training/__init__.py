"""Training, part by part: losses in chunks, optimisers, rates, moving averages, checkpoints, learned schedules."""

from .average import Average
from .checkpoint import Snapshot
from .learned import LearnedWeights, rloo_loss
from .loss import chunked_nelbo
from .optimizer import OptimizerConfig, Optimizers, build_optimizer
from .rate import RateConfig, rate_factor

__all__ = [
    "Average",
    "LearnedWeights",
    "OptimizerConfig",
    "Optimizers",
    "RateConfig",
    "Snapshot",
    "build_optimizer",
    "chunked_nelbo",
    "rate_factor",
    "rloo_loss",
]
