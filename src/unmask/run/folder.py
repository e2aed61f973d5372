"""What lies in a model's folder, and how it is opened: a run's, or an exported model's.

config.json          everything that decided what the run did
vocabulary.json      symbols ↔ ids
data.json            shape, classes and lengths of the data: what sampling needs of it

A run has besides:
metrics.jsonl        one line per step
samples/             previews
checkpoints/         see training/checkpoint.py
evals/               see run/evaluate.py

An exported model has besides (see run/export.py):
model.safetensors    its weights
README.md            its card
"""

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from ..configs import from_json, to_json
from ..data import Dataset
from ..data.manifest import MOST_TOKENS
from ..data.vocabulary import Vocabulary
from ..data.vocabulary import load as load_vocabulary
from ..files import claim, digest, read_json, write_json
from ..mistakes import fail, require
from ..training import checkpoint
from ..training.world import ALONE, World
from . import weights
from .config import RunConfig
from .weights import Tensors

CONFIG, VOCABULARY, FACTS, METRICS = "config.json", "vocabulary.json", "data.json", "metrics.jsonl"
SAMPLES, CHECKPOINTS, EVALS = "samples", "checkpoints", "evals"
WEIGHTS, CARD = "model.safetensors", "README.md"


@dataclass(frozen=True)
class Facts:
    """What a model must know of its data, apart from the vocabulary."""

    shape: tuple[int, ...]
    """Of a row."""
    label_names: tuple[str, ...] = ()
    length_counts: tuple[int, ...] = ()
    """How many training rows have 0, 1, 2, … tokens; empty if all have the same number."""
    content: tuple[str, ...] = ()
    """The identity of the prepared data; empty if it is not known."""

    def __post_init__(self) -> None:
        kinds = all(type(n) is int for n in (*self.shape, *self.length_counts))
        kinds = kinds and all(type(name) is str for name in (*self.label_names, *self.content))
        good = kinds and bool(self.shape) and min(self.shape) >= 1 and min(self.length_counts, default=0) >= 0
        good = good and math.prod(self.shape) <= MOST_TOKENS  # what a stranger's file asks for must fit in memory
        allowed = f"lengths >= 1, at most {MOST_TOKENS:,} tokens"
        require(good, "the shape of a row is wrong", got=self.shape, allowed=allowed, do="get the file again")

    @classmethod
    def of(cls, dataset: Dataset, length: int | None) -> "Facts":
        """As prepared, or with packed text cut to another length."""
        train = dataset.split("train", length)
        counts = tuple(int(c) for c in np.bincount(train.lengths)) if train.padded else ()
        return cls(tuple(train.shape), tuple(dataset.manifest.label_names), counts, (dataset.identity,))


@dataclass(frozen=True)
class ModelFolder(ABC):
    """A folder that a model can be loaded from."""

    folder: Path

    @property
    @abstractmethod
    def identity(self) -> str | None:
        """Which weights these are; None if there are none yet."""

    @abstractmethod
    def pinned(self, world: World = ALONE) -> "ModelFolder":
        """The same with the weights of now, whatever is trained later; several ranks take those that the first finds.

        What is measured of a model is loaded and named by one of these.
        """

    @property
    @abstractmethod
    def results(self) -> Path:
        """Where what is measured of the model is written."""

    @property
    @abstractmethod
    def own_data(self) -> str | None:
        """The folder of the data it was trained on, if it is known."""

    @abstractmethod
    def weights(self, average: bool, best: bool) -> Tensors:
        """The averaged weights or the plain ones, of the newest checkpoint or the best."""

    @property
    def config(self) -> RunConfig:
        document, damaged = self._json(CONFIG), f"{self.folder / CONFIG} is damaged"
        allowed, do = "a configuration", "get the file again"
        require(isinstance(document, dict), damaged, got=document, allowed=allowed, do=do)
        try:
            config: RunConfig = from_json(RunConfig, document)
        except (AttributeError, KeyError, TypeError) as error:
            fail(damaged, got=error, allowed=allowed, do=do)
        except ValueError as error:  # says what is wrong with it: a number out of range, a part that is not ours
            raise ValueError(f"{self.folder / CONFIG}: {error}") from None
        return config

    @property
    def vocabulary(self) -> Vocabulary:
        return load_vocabulary(self._file(VOCABULARY))

    @property
    def facts(self) -> Facts:
        document = self._json(FACTS)
        try:
            return Facts(**{name: tuple(value) for name, value in document.items()})
        except (AttributeError, TypeError, ValueError) as error:
            fail(f"{self.folder / FACTS} is damaged", got=error, allowed="facts of data", do="get the file again")

    def _file(self, name: str) -> Path:
        """A file of the folder."""
        path = self.folder / name
        do = "repeat the command that made the folder; for a run that is unmask train, which goes on"
        require(path.is_file(), f"{self.folder} is incomplete", got=f"no {name}", allowed="all of its files", do=do)
        return path

    def _json(self, name: str) -> Any:
        return read_json(self._file(name))


@dataclass(frozen=True)
class Run(ModelFolder):
    """A folder made by training."""

    at: str | None = None
    """The name of the checkpoint that is meant; None: the newest or the best, as is asked."""

    @classmethod
    def open(cls, folder: Path | str) -> "Run":
        """An existing run."""
        run = cls(Path(folder))
        if not (run.folder / CONFIG).exists():
            fail(
                f"{folder} is not a run",
                got="no config.json",
                allowed="a folder made by unmask train",
                do="check the path",
            )
        return run

    @classmethod
    def start(cls, folder: Path, config: RunConfig) -> "Run":
        """Begin a run in a new folder, or find that the folder holds the same run, whose data may have been moved."""
        dataset = Dataset(config.data)
        there = cls(folder)
        same_data = (folder / CONFIG).exists() and there._trained_on(config.data)
        begun = replace(config, data=there.config.data) if same_data else config
        other = {"holds": "belongs to a run with another configuration", "same": "the same configuration"}
        claim(folder, folder / CONFIG, to_json(begun), **other)
        if begun != config:
            write_json(folder / CONFIG, to_json(config))
        vocabulary, facts = dataset.vocabulary, Facts.of(dataset, config.length)
        if not (folder / VOCABULARY).exists():
            vocabulary.save(folder / VOCABULARY)
        if not (folder / FACTS).exists():
            write_json(folder / FACTS, asdict(facts))
        run = cls(folder)
        same, do = run.vocabulary == vocabulary and run.facts == facts, "prepare them again, or choose another folder"
        got, allowed = f"others in {config.data}", "those it began with"
        require(same, f"{folder} was begun with other data", got=got, allowed=allowed, do=do)
        return run

    @property
    def checkpoints(self) -> Path:
        return self.folder / CHECKPOINTS

    @property
    def identity(self) -> str | None:
        """The name of the checkpoint that is meant, or of the newest, if there is one."""
        if self.at is not None:
            return self.at
        path = checkpoint.newest(self.checkpoints)
        return None if path is None else path.name

    def pinned(self, world: World = ALONE) -> "Run":
        name = world.broadcast(self.identity if world.first else None)
        return self._fail_without() if name is None else replace(self, at=name)

    @property
    def results(self) -> Path:
        return self.folder

    @property
    def own_data(self) -> str:
        """By the path that training was given; from elsewhere, by that path from a folder above the run.

        What is there must be what it was trained on. If that is nowhere, it is the path, whatever it holds now.
        """
        named = Path(self.config.data)
        places = (named, *(above / named for above in self.folder.resolve().parents))
        return str(next((place for place in places if self._trained_on(place)), named))

    def _trained_on(self, folder: Path | str) -> bool:
        try:
            return Dataset(folder).identity in self.facts.content
        except (ValueError, OSError):  # none there, or damaged
            return False

    def weights(self, average: bool = True, best: bool = False) -> Tensors:
        path = self.chosen(best)
        with weights.plainly(path):
            return checkpoint.load_weights(path, average)

    def chosen(self, best: bool = False) -> Path:
        """The checkpoint that is meant; else the newest, or the best."""
        if self.at is not None:
            return self.checkpoints / self.at
        path = checkpoint.best(self.checkpoints) if best else checkpoint.newest(self.checkpoints)
        return self._fail_without() if path is None else path

    def _fail_without(self) -> NoReturn:
        fail(f"{self.folder} has no checkpoint yet", got="none", allowed="at least one", do="train first")

    def metrics(self) -> list[dict[str, Any]]:
        """What was logged, a dict per step; a line that is only half there, the last while training goes on, is not."""
        return [found for _, found in logged(self.folder / METRICS)]


def logged(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The lines of metrics.jsonl that are ours and whole, and what they hold."""
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else ():
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, dict) and type(found.get("step")) is int and isinstance(found.get("loss"), int | float):
            yield line, found


@dataclass(frozen=True)
class Exported(ModelFolder):
    """A folder made by `unmask export`: it needs nothing outside itself, and must not reach there."""

    root: Path
    """Links must stay in here: the folder itself, or, fetched from the hub, the folder of its cache."""
    below: Path = Path("results")
    """Where figures about it are kept, in a folder of its name: an exported model stays as it is."""

    @property
    def identity(self) -> str:
        return f"sha256-{digest(self._file(WEIGHTS))[:16]}"

    def pinned(self, world: World = ALONE) -> "Exported":
        """Nobody trains it."""
        del world
        return self

    @property
    def results(self) -> Path:
        return self.below / self.folder.resolve().name

    @property
    def own_data(self) -> None:
        return None

    @property
    def config(self) -> RunConfig:
        config = super().config
        named = config.data
        good = isinstance(named, str) and Path(named).name == named and named not in ("", ".", "..")
        allowed = "the name of its data, no path"
        require(good, f"{self.folder / CONFIG} names a path", got=named, allowed=allowed, do="export the model again")
        return config

    def weights(self, average: bool = True, best: bool = False) -> Tensors:
        what = "the best checkpoint" if best else "the plain weights"
        do = "leave that out, or choose them when exporting the run"
        require(average and not best, "an exported model has one set of weights", got=what, allowed="it", do=do)
        return weights.read(self._file(WEIGHTS))

    def about(self) -> dict[str, str]:
        """What the export wrote down beside the weights."""
        return weights.about(self._file(WEIGHTS))

    def _file(self, name: str) -> Path:
        """A file of the folder, which does not lead out of it."""
        path = self.folder / name
        inside = path.resolve().is_relative_to(self.root.resolve())
        require(inside, f"{path} leads out of its folder", got="a link", allowed="a file", do="get the model again")
        return path
