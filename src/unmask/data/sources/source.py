"""The definition of a source: an ordered list of parts, each read on its own and yielding documents."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ..vocabulary import Content

PART = 8 << 20
"""About how many bytes of input one part has: the unit of parallel work and of resuming."""

SPLITS = {"train": "train", "valid": "valid", "validation": "valid", "val": "valid", "dev": "valid", "test": "test"}
"""Words in the names of files and folders, and the split they mean."""


@dataclass(frozen=True)
class Piece:
    """A document, or a piece of one that continues in the next piece."""

    content: Content
    label: int | str | None = None
    ends: bool = True
    place: str = ""
    """The file that it is, or is a piece of, if any."""


NOTHING = Piece("")
"""A row of a table without text: it is not a document, but is counted."""


class Part(Protocol):
    """A piece of a source that one worker reads. Small, picklable, and the same on every run."""

    @property
    def split(self) -> str | None:
        """The split its documents belong to, where the source says so."""

    @property
    def weight(self) -> int:
        """About how many bytes it reads, for the progress bar."""

    def pieces(self) -> Iterator[Piece]:
        """Its documents, in order; `NOTHING` for each row that holds none."""


@dataclass(frozen=True)
class Source:
    """Where documents come from and what is natural for them."""

    parts: Sequence[Part]
    rows: bool
    """One document per row (molecules, images), rather than packed end to end (prose)."""
    one_document: bool = False
    """All parts are one running text: split by position, no end-of-text."""
    values: int | None = None
    """The number of values if the content is integers; None for text."""
    files: Sequence[Path] = ()
    """The files that are read, if they are local and have not been verified."""
