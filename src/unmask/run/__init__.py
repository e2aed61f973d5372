"""A run is a folder; here, and only here, do data, network, method and trainer meet."""

from .config import SIZES, MethodConfig, NetworkConfig, RunConfig, default_config, fitted, with_method
from .folder import Facts, Run
from .model import Model, Sampling, load
from .story import Story
from .train import build_trainer, train

__all__ = [
    "SIZES",
    "Facts",
    "MethodConfig",
    "Model",
    "NetworkConfig",
    "Run",
    "RunConfig",
    "Sampling",
    "Story",
    "build_trainer",
    "default_config",
    "fitted",
    "load",
    "train",
    "with_method",
]
