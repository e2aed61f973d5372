"""Checks samples in a file one by one: which are valid, distinct and new."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ..data import Split, Vocabulary
from ..files import read_json, read_text
from ..mistakes import fail, require

_ROWS = 4096
"""Rows decoded per batch."""


def read_samples(path: Path) -> list[str]:
    """The texts of a .json that `unmask sample` wrote, or the lines of any other file; empty lines are skipped."""
    found = _texts(path) if path.suffix == ".json" else [line for line in read_text(path).splitlines() if line.strip()]
    require(bool(found), f"{path} holds no samples", got="none", allowed="at least one", do="sample first")
    return found


def _texts(path: Path) -> list[str]:
    try:
        return [str(sample["text"]) for sample in read_json(path)]
    except (KeyError, TypeError, AttributeError):
        allowed = "what unmask sample --out FILE.json writes"
        fail(f"{path} does not hold samples", got="other JSON", allowed=allowed, do="use that, or one sample per line")


def texts_of(split: Split, vocabulary: Vocabulary) -> Iterator[str]:
    """Every row of a split as text; the padding of shorter rows decodes to nothing."""
    for start in range(0, len(split), _ROWS):
        for row in split.read(np.arange(start, min(start + _ROWS, len(split)))).tokens:
            yield vocabulary.decode(row)
