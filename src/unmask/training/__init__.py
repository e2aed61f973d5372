"""Training: methods (MD4, GenMD4), the loop, optimisers, rates, moving averages, checkpoints."""

from .average import Average
from .checkpoint import Snapshot
from .config import TrainingConfig
from .estimator_method import EstimatorMethod, OwnBound
from .genmd4 import GenMD4, GenMD4Config
from .loop import Bits, Report, Trainer
from .md4 import MD4, MD4Config
from .method import Method, Needs
from .optimizer import OptimizerConfig, Optimizers, build_optimizer
from .rate import RateConfig, rate_factor

__all__ = [
    "MD4",
    "Average",
    "Bits",
    "EstimatorMethod",
    "GenMD4",
    "GenMD4Config",
    "MD4Config",
    "Method",
    "Needs",
    "OptimizerConfig",
    "Optimizers",
    "OwnBound",
    "RateConfig",
    "Report",
    "Snapshot",
    "Trainer",
    "TrainingConfig",
    "build_optimizer",
    "rate_factor",
]
