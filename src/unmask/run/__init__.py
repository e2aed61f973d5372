"""A run is a folder; here, and only here, do data, network, method and trainer meet."""

from .config import SIZES, MethodConfig, NetworkConfig, RunConfig, default_config, fitted, quick_training, with_method
from .export import export
from .folder import Exported, Facts, ModelFolder, Run
from .model import Model, load
from .places import find
from .sampling import Sampling
from .started import started
from .story import Story
from .train import build_trainer, train

__all__ = [
    "SIZES",
    "Exported",
    "Facts",
    "MethodConfig",
    "Model",
    "ModelFolder",
    "NetworkConfig",
    "Run",
    "RunConfig",
    "Sampling",
    "Story",
    "build_trainer",
    "default_config",
    "export",
    "find",
    "fitted",
    "load",
    "quick_training",
    "started",
    "train",
    "with_method",
]
