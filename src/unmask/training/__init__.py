"""Training: methods (MD4, GenMD4), the loop, losses in chunks, optimisers, rates, moving averages, checkpoints."""

from .average import Average
from .checkpoint import Snapshot
from .genmd4 import GenMD4, GenMD4Config
from .loop import Bits, Report, Trainer, TrainingConfig
from .loss import charge_chunks, chunked_nelbo
from .md4 import MD4, MD4Config
from .method import Method
from .optimizer import OptimizerConfig, Optimizers, build_optimizer
from .rate import RateConfig, rate_factor

__all__ = [
    "MD4",
    "Average",
    "Bits",
    "GenMD4",
    "GenMD4Config",
    "MD4Config",
    "Method",
    "OptimizerConfig",
    "Optimizers",
    "RateConfig",
    "Report",
    "Snapshot",
    "Trainer",
    "TrainingConfig",
    "build_optimizer",
    "charge_chunks",
    "chunked_nelbo",
    "rate_factor",
]
