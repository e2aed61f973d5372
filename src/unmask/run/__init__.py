"""Runs and models as folders: the only package in which data, network, method and trainer meet."""

from .config import (
    SIZES,
    MethodConfig,
    NetworkConfig,
    RunConfig,
    adapted_to_data,
    default_config,
    quick_training,
    with_method,
)
from .export import export
from .finetuning import finetuning_config
from .folder import Exported, Facts, ModelFolder, Run
from .model import Model, load
from .places import find_model
from .sampling import Sampling
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
    "adapted_to_data",
    "build_trainer",
    "default_config",
    "export",
    "find_model",
    "finetuning_config",
    "load",
    "quick_training",
    "train",
    "with_method",
]
