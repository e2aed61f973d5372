"""Fine-tuning: training that starts from a model, on other data."""

from dataclasses import replace

from ..data import Dataset
from ..training import OptimizerConfig, RateConfig, TrainingConfig
from .config import RunConfig
from .places import find_model

_GENTLE = TrainingConfig(
    steps=500,
    batch_size=16,
    optimizer=OptimizerConfig(rate=3e-4),
    rate=RateConfig(warmup=20),
    average=0.99,
    validate_every=100,
    save_every=100,
)
"""A few hundred small steps: the model already knows most of what it needs."""


def finetuning_config(model: str, data: str) -> RunConfig:
    """A run with the network, method and length of a model, on other data."""
    folder = find_model(model)
    length = None if Dataset(data).manifest.rows else folder.facts.shape[0]  # the length of rows is fixed
    return replace(folder.config, data=data, training=_GENTLE, start=model, length=length)
