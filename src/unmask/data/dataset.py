"""Prepared data, read through memory maps: rows by number, batches by (seed, step)."""

from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..files import digest, fingerprint
from ..mistakes import fail, require
from . import vocabulary
from .manifest import Manifest, SplitPart
from .order import Indices, epoch_key, mix, rows_of_step, spread
from .vocabulary import Vocabulary


@dataclass(frozen=True)
class Batch:
    """Rows of token ids, which of the tokens count, and the classes of the rows."""

    tokens: NDArray[np.int64]
    """[B, ...], padding filled with the end-of-text id (or 0)."""
    valid: NDArray[np.bool_] | None
    """Like tokens, false at padding; None if everything counts."""
    labels: NDArray[np.int64] | None
    rows: Indices
    """The numbers of the rows, for error messages."""


class Dataset:
    """A folder of prepared data."""

    def __init__(self, folder: Path | str):
        self.folder = Path(folder)
        self.manifest = Manifest.load(self.folder)
        self._check_sizes()
        self.vocabulary: Vocabulary = vocabulary.load(self.folder / "vocabulary.json")

    def _check_sizes(self) -> None:
        """Detect a broken copy without reading it."""
        size, do = np.dtype(self.manifest.dtype).itemsize, "prepare the data again"
        for shard in self.manifest.shards:
            path, wanted = self.folder / shard.file, size * shard.tokens
            got = path.stat().st_size if path.exists() else 0
            require(got == wanted, f"{path} is damaged", got=f"{got:,} bytes", allowed=f"{wanted:,}", do=do)

    @property
    def splits(self) -> list[str]:
        """The names of the splits."""
        return list(self.manifest.splits)

    @cached_property
    def identity(self) -> str:
        """A short name for the contents of the rows, wherever they came from: other contents have another name."""
        parts = self.manifest.splits.values()
        beside = [name for part in parts for name in (part.lengths, part.labels) if name is not None]
        content = asdict(replace(self.manifest, plan={}))  # includes the hashes of the shards
        del content["empty"]  # counts rows that were left out
        return fingerprint([content, {name: digest(self.folder / name) for name in beside}])

    def split(self, name: str, length: int | None = None) -> "Split":
        """One split; packed data can be cut to any length."""
        if name not in self.manifest.splits:
            allowed = ", ".join(self.splits)
            fail(f"{self.folder} has no split {name!r}", got=name, allowed=allowed, do="choose one of them")
        return Split(self, name, length)

    def verify(self) -> None:
        """Compare every shard with its hash."""
        for shard in self.manifest.shards:
            if digest(self.folder / shard.file) != shard.sha256:
                fail(
                    f"{self.folder / shard.file} is damaged",
                    got="another hash",
                    allowed=shard.sha256,
                    do="prepare the data again",
                )


class Split:
    """The rows of one split."""

    def __init__(self, dataset: Dataset, name: str, length: int | None = None):
        manifest = dataset.manifest
        part: SplitPart = manifest.splits[name]
        self.name = name
        self._dataset, self._part = dataset, part
        self.running = not manifest.rows
        """Whether rows are windows of one text, of any length; neighbouring rows are then similar."""
        require(
            length is None or (self.running and length >= 1),
            "the length cannot be chosen here",
            got=length,
            allowed="None for rows, >= 1 for packed data",
            do="prepare the data with that length",
        )
        self.length = length or manifest.length
        self.shape = (self.length,) if self.running else tuple(manifest.shape)
        self.tokens = part.tokens
        self.documents = part.documents
        self.padded = part.lengths is not None
        """Whether rows differ in length."""
        self.fill = dataset.vocabulary.fill_id
        """The token that fills a row after its end."""
        self._dtype = np.dtype(manifest.dtype)
        starts = np.cumsum([0] + [s.stop - s.start for s in part.segments])
        self._starts = starts.astype(np.int64)
        if self.running and self.tokens < self.length:
            fail(
                "the split is shorter than one sequence",
                got=f"{self.tokens} tokens",
                allowed=f"at least {self.length}",
                do="use more data, a larger share for this split, or a shorter length",
            )

    def __len__(self) -> int:
        """The number of rows; for packed data, the number of whole windows."""
        return self.tokens // self.length if self.running else self._part.documents

    @property
    def identity(self) -> str:
        """The identity of the data set it is part of."""
        return self._dataset.identity

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        """The number of tokens in each row, without padding."""
        if self._part.lengths:
            return np.load(self._dataset.folder / self._part.lengths).astype(np.int64)  # type: ignore[no-any-return]
        return np.full(len(self), self.length, dtype=np.int64)

    @cached_property
    def labels(self) -> NDArray[np.int64] | None:
        """The class of each row."""
        if not self._part.labels:
            return None
        return np.load(self._dataset.folder / self._part.labels).astype(np.int64)  # type: ignore[no-any-return]

    @cached_property
    def _row_starts(self) -> NDArray[np.int64]:
        return np.concatenate([[0], np.cumsum(self.lengths)])

    @cached_property
    def _maps(self) -> list[NDArray[Any]]:
        manifest, folder = self._dataset.manifest, self._dataset.folder
        return [
            np.memmap(folder / manifest.shards[s.shard].file, dtype=self._dtype, mode="r")[s.start : s.stop]
            for s in self._part.segments
        ]

    def stream(self, start: int, count: int) -> NDArray[Any]:
        """Tokens start..start+count of the split, across shards."""
        found: list[NDArray[Any]] = []
        piece = int(np.searchsorted(self._starts, start, side="right")) - 1
        while count > 0:
            inside = start - int(self._starts[piece])
            taken = self._maps[piece][inside : inside + count]
            found.append(taken)
            start, count, piece = start + len(taken), count - len(taken), piece + 1
        return found[0] if len(found) == 1 else np.concatenate(found)

    def read(self, rows: Indices, shift: Indices | int = 0) -> Batch:
        """Rows by number. Windows of packed data start `shift` tokens later, as far as the split reaches."""
        rows = np.asarray(rows, dtype=np.int64)
        if self.running:
            starts = np.minimum(rows * self.length + shift, self.tokens - self.length)
            tokens = np.stack([self.stream(int(s), self.length) for s in starts])
            return Batch(tokens.astype(np.int64), None, None, rows)
        lengths = self.lengths[rows]
        tokens = np.full((len(rows), self.length), self.fill, dtype=np.int64)
        for i, (row, length) in enumerate(zip(rows, lengths, strict=True)):
            tokens[i, :length] = self.stream(int(self._row_starts[row]), int(length))
        valid = None if not self.padded else np.arange(self.length) < lengths[:, None]
        labels = None if self.labels is None else self.labels[rows]
        return Batch(tokens.reshape(len(rows), *self.shape), valid, labels, rows)

    def spread(self, count: int | None = None) -> Indices:
        """`count` row numbers (None: all), spread evenly; those of a smaller count come first."""
        return spread(len(self), len(self) if count is None else count)

    def count(self, seed: int, step: int, batch_size: int) -> int:
        """The number of tokens in the whole batch of a step, without padding."""
        if not self.padded:
            return batch_size * self.length
        _, rows = rows_of_step(len(self), seed, step, batch_size)
        return int(self.lengths[rows].sum())

    def batch(self, seed: int, step: int, batch_size: int, rank: int = 0, ranks: int = 1) -> Batch:
        """The batch of a step: shuffled within each epoch; packed windows are shifted anew in each epoch."""
        epoch, rows = rows_of_step(len(self), seed, step, batch_size, rank, ranks)
        if not self.running:
            return self.read(rows)
        shift = mix(epoch_key(seed, epoch).view(np.uint64)) % np.uint64(self.length)
        return self.read(rows, shift.astype(np.int64))
