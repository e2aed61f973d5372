"""manifest.json: the contents of a folder of prepared data, readable by people and checked by programs.

manifest.json      this file
vocabulary.json    symbols ↔ ids
shards/*.bin       token ids, little-endian, one after another
SPLIT.lengths.npy  row lengths, where rows differ in length
SPLIT.labels.npy   classes, where the source has them
"""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ..files import write_json
from ..mistakes import fail

VERSION = 1
FILE = "manifest.json"
MOST_TOKENS = 1 << 24
"""Maximum number of tokens per row."""


@dataclass(frozen=True)
class Shard:
    """A file of token ids."""

    file: str
    tokens: int
    sha256: str


@dataclass(frozen=True)
class Segment:
    """Tokens start..stop of a shard."""

    shard: int
    start: int
    stop: int


@dataclass(frozen=True)
class SplitPart:
    """One split: a stream of tokens made of segments, cut into rows when read."""

    tokens: int
    documents: int
    segments: list[Segment]
    lengths: str | None = None
    labels: str | None = None


@dataclass(frozen=True)
class Manifest:
    """The complete description of prepared data."""

    plan: dict[str, Any]
    """What was asked for; the same plan prepares the same bytes."""
    vocabulary_size: int
    dtype: str
    rows: bool
    """One document per row; else documents are packed end to end."""
    length: int
    """Tokens per row: the longest allowed, or the default window of packed data."""
    shape: list[int]
    """Shape of a row; [length] for sequences."""
    splits: dict[str, SplitPart]
    shards: list[Shard]
    label_names: list[str] = field(default_factory=list)
    dropped: int = 0
    """Documents left out because they were longer than `length`."""
    empty: int = 0
    """Rows of tables left out because they hold no text."""
    version: int = VERSION

    def save(self, folder: Path) -> None:
        """Write the file, complete or not at all."""
        write_json(folder / FILE, asdict(self))

    @classmethod
    def load(cls, folder: Path) -> "Manifest":
        """Read the manifest of a folder."""
        path = folder / FILE
        if not path.exists():
            fail(
                f"{folder} holds no prepared data",
                got="no manifest.json",
                allowed="a prepared folder",
                do="run unmask data prepare",
            )
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            if document["version"] != VERSION:
                fail(
                    f"{path} has an unsupported version",
                    got=document["version"],
                    allowed=str(VERSION),
                    do="prepare the data again",
                )
            splits = {
                name: SplitPart(**{**part, "segments": [Segment(**s) for s in part["segments"]]})
                for name, part in document["splits"].items()
            }
            return cls(**{**document, "splits": splits, "shards": [Shard(**s) for s in document["shards"]]})
        except (json.JSONDecodeError, KeyError, TypeError) as error:
            fail(f"{path} is damaged", got=error, allowed="an unmask manifest", do="prepare the data again")
