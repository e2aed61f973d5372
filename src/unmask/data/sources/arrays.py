"""Integer arrays of any shape: .npy and .npz, the first axis counting the rows."""

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from ...mistakes import fail
from .source import PART, Part, Piece, Source


@dataclass(frozen=True)
class Stored:
    """An array in a file: a .npy, or a member of an .npz."""

    path: Path
    key: str | None = None

    @contextmanager
    def _open(self) -> Iterator[IO[bytes]]:
        try:
            if self.key is None:
                with self.path.open("rb") as file:
                    yield file
            else:
                with zipfile.ZipFile(self.path) as archive, archive.open(f"{self.key}.npy") as file:
                    yield file
        except (zipfile.BadZipFile, KeyError, EOFError) as error:
            fail(f"{self.path} cannot be read", got=error, allowed=f".npy, or .npz holding {self.key!r}", do="check it")

    def header(self, file: IO[bytes] | None = None) -> tuple[tuple[int, ...], np.dtype[Any]]:
        """Shape and type, read from the array's header. Pickled objects and Fortran order are refused."""
        if file is None:
            with self._open() as opened:
                return self.header(opened)
        try:
            version = npy.read_magic(file)
            read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
            shape, fortran, dtype = read(file)
        except ValueError as error:
            fail(f"{self.path} is not an array file", got=error, allowed=".npy or .npz", do="save it with numpy")
        if dtype.hasobject or fortran:
            got = "Python objects" if dtype.hasobject else "Fortran order"
            fail(f"{self.path} cannot be streamed", got=got, allowed="plain arrays in C order", do="save it again")
        return shape, dtype

    def blocks(self) -> Iterator[NDArray[Any]]:
        """The rows in order, a few megabytes at a time."""
        with self._open() as file:
            shape, dtype = self.header(file)
            row = int(np.prod(shape[1:])) * dtype.itemsize
            left, step = shape[0], max(1, PART // max(row, 1))
            while left:
                count = min(step, left)
                data = file.read(count * row)
                if len(data) < count * row:
                    got = f"{shape[0] - left + len(data) // max(row, 1)} of {shape[0]} rows"
                    fail(f"{self.path} is truncated", got=got, allowed="all rows", do="fetch or save it again")
                yield np.frombuffer(data, dtype).reshape(count, *shape[1:])
                left -= count

    def whole(self) -> NDArray[Any]:
        """The whole array, for labels."""
        return np.concatenate(list(self.blocks()) or [np.zeros(0, np.int64)])


@dataclass(frozen=True)
class ArrayPart:
    """The rows of an array, with their labels from another."""

    rows: Stored
    labels: Stored | None
    weight: int
    split: str | None = None

    def pieces(self) -> Iterator[Piece]:
        labels = iter(self.labels.whole().reshape(-1).tolist()) if self.labels else None
        for block in self.rows.blocks():
            for row in block:
                yield Piece(row, next(labels) if labels else None)


def array_part(rows: Stored, labels: Stored | None, split: str | None) -> tuple[Part, int]:
    """A part for an array and the number of values in it (256 for bytes, else 1 + the largest)."""
    shape, dtype = rows.header()
    if len(shape) < 2 or not np.issubdtype(dtype, np.integer):
        fail(
            f"{rows.path} does not hold rows of integers",
            got=f"{dtype} of shape {shape}",
            allowed="an integer array [rows, ...]",
            do="convert it, or add an axis for the rows",
        )
    if labels and int(np.prod(labels.header()[0])) != shape[0]:
        got = f"{labels.header()[0]} labels for {shape[0]} rows"
        fail(f"{rows.path} does not have a label for each row", got=got, allowed="one per row", do="check the file")
    values = 256 if dtype == np.uint8 else 1 + max((int(b.max()) for b in rows.blocks()), default=0)
    return ArrayPart(rows, labels, int(np.prod(shape)) * dtype.itemsize, split), values


def arrays(paths: list[Path], column: str | None, label: str | None) -> Source:
    """All of a .npy; from an .npz, the named array, the only one, or train_images, train_labels, test_images, …"""
    parts: list[Part] = []
    values = 0
    for path in paths:
        for rows, labels, split in _members(path, column, label):
            part, largest = array_part(rows, labels, split)
            parts.append(part)
            values = max(values, largest)
    return Source(parts, rows=True, values=values)


def _members(path: Path, column: str | None, label: str | None) -> list[tuple[Stored, Stored | None, str | None]]:
    if (column or label) and path.suffix == ".npy":
        got = " and ".join(name for name in (column, label) if name)
        fail(f"{path} is one array without a name", got=got, allowed="an .npz", do="leave the columns out")
    if label and not column:
        what, got = f"{path} needs the name of the data too", f"only --label-column {label}"
        fail(what, got=got, allowed="both columns", do="add --column")
    if path.suffix == ".npy":
        return [(Stored(path), None, None)]
    names = [name.removesuffix(".npy") for name in zipfile.ZipFile(path).namelist()]
    if column:
        return [(Stored(path, column), Stored(path, label) if label else None, None)]
    splits = [split for split in ("train", "valid", "test") if f"{split}_images" in names]
    if splits:
        labelled = {s: Stored(path, f"{s}_labels") if f"{s}_labels" in names else None for s in splits}
        return [(Stored(path, f"{s}_images"), labelled[s], s) for s in splits]
    if len(names) == 1:
        return [(Stored(path, names[0]), None, None)]
    fail(f"{path} holds several arrays", got=", ".join(names), allowed="one of them", do="name it with --column")
