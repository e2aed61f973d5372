"""Contents of a model's folder, and how to open it: the folder of a run, or of an exported model.

config.json          the configuration of the run
vocabulary.json      symbols ↔ ids
data.json            shape, classes and lengths of the data, as needed for sampling

A run also has:
metrics.jsonl        one line per step
samples/             previews
checkpoints/         see training/checkpoint.py
evals/               see run/evaluate.py

An exported model also has (see run/export.py):
model.safetensors    its weights
README.md            its model card
"""

import json
import math
import shutil
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
FILES = (CONFIG, VOCABULARY, FACTS, WEIGHTS, CARD)
"""All files of an exported model; the card may be missing."""
MOST_AXES = 8
"""Most axes of a row."""


@dataclass(frozen=True)
class Facts:
    """What a model needs to know about its data, besides the vocabulary."""

    shape: tuple[int, ...]
    """Shape of a row."""
    label_names: tuple[str, ...] = ()
    length_counts: tuple[int, ...] = ()
    """How many training rows have 0, 1, 2, … tokens; empty if all have the same number."""
    content: tuple[str, ...] = ()
    """The identity of the prepared data; empty if it is unknown."""

    def __post_init__(self) -> None:
        kinds = all(type(n) is int for n in (*self.shape, *self.length_counts))
        kinds = kinds and all(type(name) is str for name in (*self.label_names, *self.content))
        good = kinds and 1 <= len(self.shape) <= MOST_AXES and min(self.shape) >= 1
        good = good and math.prod(self.shape) <= MOST_TOKENS  # what an untrusted file asks for must fit in memory
        counts = self.length_counts
        good = good and (not counts or (min(counts) >= 0 and 1 <= sum(counts) < 2**53))
        allowed = f"lengths >= 1, at most {MOST_TOKENS:,} tokens"
        require(good, "the shape of a row is wrong", got=self.shape, allowed=allowed, do="get the file again")

    @classmethod
    def of(cls, dataset: Dataset, length: int | None) -> "Facts":
        """Facts of the data as prepared, or of packed text cut to another length."""
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
        """Identifies the weights; None if there are none yet."""

    @abstractmethod
    def pinned(self, world: World = ALONE) -> "ModelFolder":
        """The same folder fixed to its current weights, whatever is trained later; all ranks use the first rank's.

        Evaluations load the model, and name their results, through one of these.
        """

    @property
    @abstractmethod
    def results(self) -> Path:
        """Where results of evaluations are written."""

    @property
    @abstractmethod
    def own_data(self) -> str | None:
        """The folder of the data the model was trained on, if known."""

    @abstractmethod
    def weights(self, average: bool, best: bool) -> Tensors:
        """The averaged or the raw weights, of the newest or the best checkpoint."""

    @property
    def config(self) -> RunConfig:
        document, damaged = self._json(CONFIG), f"{self.folder / CONFIG} is damaged"
        allowed, do = "a configuration", "get the file again"
        require(isinstance(document, dict), damaged, got=document, allowed=allowed, do=do)
        try:
            config: RunConfig = from_json(RunConfig, document)
        except (AttributeError, KeyError, TypeError) as error:
            fail(damaged, got=error, allowed=allowed, do=do)
        except ValueError as error:  # its message is specific: a number out of range, an unknown part
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
            fail(f"{self.folder / FACTS} is damaged", got=error, allowed="facts of the data", do="get the file again")

    def _file(self, name: str) -> Path:
        """The path of a file in the folder, which must exist."""
        path = self.folder / name
        do = "repeat the command that made the folder (for a run: unmask train, which resumes)"
        require(path.is_file(), f"{self.folder} is incomplete", got=f"no {name}", allowed="all of its files", do=do)
        return path

    def _json(self, name: str) -> Any:
        return read_json(self._file(name))


@dataclass(frozen=True)
class Run(ModelFolder):
    """A folder made by training."""

    at: str | None = None
    """Name of the checkpoint to use; None: the newest or the best, as requested."""

    @classmethod
    def open(cls, folder: Path | str) -> "Run":
        """Open an existing run."""
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
        """Start a run in a new folder, or reopen the same run, whose data may have been moved."""
        dataset = Dataset(config.data)
        there = cls(folder)
        same_data = (folder / CONFIG).exists() and there._trained_on(config.data)
        begun = replace(config, data=there.config.data) if same_data else config
        other = {"holds": "belongs to a run with another configuration", "same": "the same configuration"}
        other["do"] = f"undo the change, or start another run from this one with --start {folder}"
        claim(folder, folder / CONFIG, to_json(begun), **other)
        if begun != config:
            write_json(folder / CONFIG, to_json(config))
        vocabulary, facts = dataset.vocabulary, Facts.of(dataset, config.length)
        if not (folder / VOCABULARY).exists():
            vocabulary.save(folder / VOCABULARY)
        if not (folder / FACTS).exists():
            write_json(folder / FACTS, asdict(facts))
        run = cls(folder)
        same, do = run.vocabulary == vocabulary and run.facts == facts, "restore that data, or choose another folder"
        got, allowed = f"other data in {config.data}", "the data it was started with"
        require(same, f"{folder} was started with other data", got=got, allowed=allowed, do=do)
        return run

    @property
    def checkpoints(self) -> Path:
        return self.folder / CHECKPOINTS

    @property
    def identity(self) -> str | None:
        """The name of the pinned checkpoint, or of the newest, if there is one."""
        if self.at is not None:
            return self.at
        path = checkpoint.newest(self.checkpoints)
        return None if path is None else path.name

    def pinned(self, world: World = ALONE) -> "Run":
        name = world.from_first(lambda: self.identity)
        return self._fail_without() if name is None else replace(self, at=name)

    @property
    def results(self) -> Path:
        return self.folder

    @property
    def own_data(self) -> str:
        """The path given to training, or that path relative to a folder above the run.

        The folder must hold the data the run was trained on. If none does, the given path is returned regardless.
        """
        named = Path(self.config.data)
        places = (named, *(above / named for above in self.folder.resolve().parents))
        return str(next((place for place in places if self._trained_on(place)), named))

    def _trained_on(self, folder: Path | str) -> bool:
        try:
            return Dataset(folder).identity in self.facts.content
        except (ValueError, OSError):  # missing, or damaged
            return False

    def weights(self, average: bool = True, best: bool = False) -> Tensors:
        path = self.chosen(best)
        with weights.plainly(path):
            return checkpoint.load_weights(path, average)

    def chosen(self, best: bool = False) -> Path:
        """The path of the pinned checkpoint; else of the newest, or the best."""
        if self.at is not None:
            return self.checkpoints / self.at
        path = checkpoint.best(self.checkpoints) if best else checkpoint.newest(self.checkpoints)
        return self._fail_without() if path is None else path

    def _fail_without(self) -> NoReturn:
        fail(f"{self.folder} has no checkpoint yet", got="none", allowed="at least one", do="train first")

    def metrics(self) -> list[dict[str, Any]]:
        """The logged metrics, a dict per step; incomplete lines (the last one, during training) are skipped."""
        return [found for _, found in logged(self.folder / METRICS)]


def logged(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The valid and complete lines of metrics.jsonl, and what they hold."""
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else ():
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, dict) and type(found.get("step")) is int and isinstance(found.get("loss"), int | float):
            yield line, found


@dataclass(frozen=True)
class Exported(ModelFolder):
    """A folder made by `unmask export`: self-contained, and not allowed to refer to anything outside itself."""

    root: Path
    """Links must stay inside it: the folder itself, or, for a model from the hub, its cache folder."""
    below: Path = Path("results")
    """Where results are kept, in a folder with the model's name: an exported model is never modified."""

    @property
    def identity(self) -> str:
        return f"sha256-{digest(self._file(WEIGHTS))[:16]}"

    def pinned(self, world: World = ALONE) -> "Exported":
        """Itself: an exported model does not change."""
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
        allowed = "the name of its data, without a path"
        require(good, f"{self.folder / CONFIG} names a path", got=named, allowed=allowed, do="export the model again")
        return config

    def weights(self, average: bool = True, best: bool = False) -> Tensors:
        what = "the best checkpoint" if best else "the raw weights"
        allowed, do = "the exported weights", "leave the option out, or choose the weights when exporting the run"
        require(average and not best, "an exported model has one set of weights", got=what, allowed=allowed, do=do)
        return weights.read(self._file(WEIGHTS))

    def copied(self, folder: Path) -> "Exported":
        """A copy of its files in a new folder; none of them leads outside this one."""
        folder.mkdir()
        for name in FILES:
            if name != CARD or (self.folder / CARD).exists():
                shutil.copyfile(self._file(name), folder / name)
        return Exported(folder, folder)

    def about(self) -> dict[str, str]:
        """What the export recorded beside the weights."""
        return weights.about(self._file(WEIGHTS))

    def _file(self, name: str) -> Path:
        """The path of a file in the folder, which must not lead outside."""
        path = super()._file(name)
        inside = path.resolve().is_relative_to(self.root.resolve())
        require(inside, f"{path} leads outside its folder", got="a link", allowed="a file", do="get the model again")
        return path
