"""What lies in a run's folder, and how it is opened.

config.json          everything that decided what the run did
vocabulary.json      symbols ↔ ids
data.json            shape, classes and lengths of the data: what sampling needs of it
metrics.jsonl        one line per step
samples/             previews
checkpoints/         see training/checkpoint.py
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..configs import from_json, to_json
from ..data import Dataset
from ..data.vocabulary import Vocabulary
from ..data.vocabulary import load as load_vocabulary
from ..files import claim, written_whole
from ..mistakes import fail
from ..training import checkpoint
from .config import RunConfig

CONFIG, VOCABULARY, FACTS, METRICS = "config.json", "vocabulary.json", "data.json", "metrics.jsonl"
SAMPLES, CHECKPOINTS = "samples", "checkpoints"


@dataclass(frozen=True)
class Facts:
    """What a model must know of its data, apart from the vocabulary."""

    shape: tuple[int, ...]
    """Of a row."""
    label_names: tuple[str, ...] = ()
    length_counts: tuple[int, ...] = ()
    """How many training rows have 0, 1, 2, … tokens; empty if all have the same number."""

    @classmethod
    def of(cls, dataset: Dataset, length: int | None) -> "Facts":
        """As prepared, or with packed text cut to another length."""
        train = dataset.split("train", length)
        counts = tuple(int(c) for c in np.bincount(train.lengths)) if train.padded else ()
        return cls(tuple(train.shape), tuple(dataset.manifest.label_names), counts)


@dataclass(frozen=True)
class Run:
    """A folder made by training."""

    folder: Path

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
        """Begin a run in a new folder, or find that the folder holds the same run."""
        dataset = Dataset(config.data)
        other = {"holds": "belongs to a run with another configuration", "same": "the same configuration"}
        claim(folder, folder / CONFIG, to_json(config), **other)
        for name, document in (
            (VOCABULARY, dataset.vocabulary.to_json()),
            (FACTS, asdict(Facts.of(dataset, config.length))),
        ):
            if not (folder / name).exists():
                with written_whole(folder / name, "w") as file:
                    json.dump(document, file, ensure_ascii=False)
        return cls(folder)

    @property
    def config(self) -> RunConfig:
        config: RunConfig = from_json(RunConfig, self._json(CONFIG))
        return config

    @property
    def vocabulary(self) -> Vocabulary:
        return load_vocabulary(self.folder / VOCABULARY)

    @property
    def facts(self) -> Facts:
        return Facts(**{name: tuple(value) for name, value in self._json(FACTS).items()})

    @property
    def checkpoints(self) -> Path:
        return self.folder / CHECKPOINTS

    @property
    def newest(self) -> str | None:
        """The name of the newest checkpoint, if there is one."""
        path = checkpoint.newest(self.checkpoints)
        return None if path is None else path.name

    def metrics(self) -> list[dict[str, Any]]:
        """What was logged, a dict per step."""
        lines = (self.folder / METRICS).read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines]

    def _json(self, name: str) -> dict[str, Any]:
        document: dict[str, Any] = json.loads((self.folder / name).read_text(encoding="utf-8"))
        return document
