"""A readable description of a model: method, size, data, training, and the samplers that fit it."""

from collections.abc import Iterator
from dataclasses import MISSING, dataclass, fields, is_dataclass
from typing import Any

from ..sampling.samplers import fitting
from .config import RunConfig
from .folder import Facts, ModelFolder
from .previews import is_picture
from .weights import skeleton

_SIZES = ("layers", "blocks", "heads", "width")
"""Fields of a network that are always shown."""


@dataclass(frozen=True)
class Description:
    """Description of a model, available without its weights."""

    method: str
    network: str
    parameters: int
    vocabulary: str
    vocabulary_size: int
    shape: tuple[int, ...]
    """Shape of a row."""
    rows: str
    """What a row is."""
    classes: tuple[str, ...]
    data: str
    training: str
    sampler: str
    """The default sampler."""
    samplers: tuple[str, ...]
    """All samplers that fit."""

    @classmethod
    def of(cls, folder: ModelFolder) -> "Description":
        """Read it from the configuration and the files beside it."""
        config, vocabulary, facts = folder.config, folder.vocabulary, folder.facts
        method = skeleton(config, folder.folder)
        schedule = method.estimator().process.schedule
        samplers = list(fitting(schedule, method.family, method.network.sees_time))
        picture = is_picture(vocabulary, facts.shape)
        return cls(
            method=in_words(config.method),
            network=in_words(config.network),
            parameters=sum(p.numel() for p in method.parameters()),
            vocabulary=repr(vocabulary),
            vocabulary_size=vocabulary.size,
            shape=facts.shape,
            rows=_rows(facts, picture, method.network.fixed_shape),
            classes=facts.label_names,
            data=_last_name(config.data),
            training=_training(config),
            sampler=method.family.sampler,
            samplers=tuple(samplers),
        )


def _last_name(path: str) -> str:
    """The last component of a path."""
    parts = [part for part in path.replace("\\", "/").split("/") if part not in ("", ".", "..")]
    return parts[-1] if parts else "data"


def in_words(config: Any) -> str:
    """The kind of a configuration and the fields that differ from their defaults: "MD4: schedule cosine"."""
    kind = type(config).__name__.removesuffix("Config")
    said = ", ".join(_different(config))
    return f"{kind}: {said}" if said else kind


def _different(config: Any) -> Iterator[str]:
    for entry in fields(config):
        value = getattr(config, entry.name)
        if is_dataclass(value):
            yield from _different(value)
        elif entry.name in _SIZES or (entry.default is not MISSING and value != entry.default):
            yield f"{entry.name.replace('_', ' ')} {_value(value)}"


def _value(value: Any) -> str:
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)


def _rows(facts: Facts, picture: bool, fixed: bool) -> str:
    size = " × ".join(map(str, facts.shape))
    if picture:
        return f"images of {size}"
    if not fixed:
        return f"running text, {size} tokens at a time"
    shorter = "at most " if facts.length_counts else ""
    return f"rows of {shorter}{size} tokens"


def _training(config: RunConfig) -> str:
    training = config.training
    optimizer = training.optimizer
    return (
        f"{training.steps:,} steps of {training.batch_size} sequences, {optimizer.optimizer}, rate {optimizer.rate:g}, "
        f"seed {training.seed}"
    )
