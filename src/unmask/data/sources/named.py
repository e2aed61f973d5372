"""Data sets known by name: text8, MNIST, CIFAR-10, MOSES, and the hub's OpenWebText and FineWeb-Edu."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...files import atomic_write, digest
from ...mistakes import extra, fail, first_line
from .. import files
from .images import CIFAR10_MD5, CIFAR10_URL, cifar10, mnist
from .source import NOTHING, PART, Part, Piece, Source
from .text import TextPart, table

TEXT8_URL = "http://mattmahoney.net/dc/text8.zip"
TEXT8_MD5 = "3bea1919949baf155f99411df5fada7e"  # of the 100,000,000 bytes inside
TEXT8_SIZES = {"train": 90_000_000, "valid": 5_000_000, "test": 5_000_000}
MNIST_URL = "https://ossci-datasets.s3.amazonaws.com/mnist/"
MOSES_URL = "https://media.githubusercontent.com/media/molecularsets/moses/master/data/"
MNIST_MD5 = {
    "train-images-idx3-ubyte.gz": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
    "train-labels-idx1-ubyte.gz": "d53e105ee54ea40749a09fcbcd1e9432",
    "t10k-images-idx3-ubyte.gz": "9fb629c4189551a2d022fa330f9573f3",
    "t10k-labels-idx1-ubyte.gz": "ec29112dd5afa0611ce80d1b7f02629c",
}


def text8(path: Path | None, cache: Path, md5: str = TEXT8_MD5, sizes: dict[str, int] | None = None) -> Source:
    """text8 from a local copy (plain, .zip, .xz, …) or its official address; checked by md5, split 90 / 5 / 5 M."""
    if path is None:
        path = cache / "text8.zip"
        if not path.exists():
            files.fetch(TEXT8_URL, path)
    plain = path
    if files.is_compressed(path):
        plain = cache / "text8"
        with files.readable(path) as packed, atomic_write(plain) as out:
            shutil.copyfileobj(packed, out)
    if (got := digest(plain, "md5")) != md5:
        fail(
            f"{path} is not text8",
            got=f"md5 {got}",
            allowed=md5,
            do="fetch it again, or use --kind text for other text",
        )
    parts, start = [], 0
    for split, size in (sizes or TEXT8_SIZES).items():
        within = (start, start + size)
        for low in range(*within, PART):
            high = min(low + PART, within[1])
            parts.append(TextPart(plain, low, high, split, last=high == within[1], within=within))
        start += size
    return Source(parts, rows=False, one_document=True)


def mnist_by_name(cache: Path) -> Source:
    """MNIST from its mirror, checked."""
    for name, md5 in MNIST_MD5.items():
        files.fetch(MNIST_URL + name, cache / "mnist" / name, md5)
    return mnist(cache / "mnist")


def cifar10_by_name(cache: Path) -> Source:
    """CIFAR-10's binary version from its official address, checked."""
    return cifar10(files.fetch(CIFAR10_URL, cache / "cifar-10-binary.tar.gz", CIFAR10_MD5))


def moses(cache: Path, column: str = "SMILES") -> Source:
    """MOSES: drug-like molecules as SMILES, with the benchmark's own split."""
    parts: list[Part] = []
    for split in ("train", "test"):
        path = files.fetch(f"{MOSES_URL}{split}.csv", cache / "moses" / f"{split}.csv")
        parts.extend(table([path], column, None, split).parts)
    return Source(parts, rows=True)


@dataclass(frozen=True)
class HubPart:
    """One shard of a data set on the hub, streamed."""

    name: str
    config: str | None
    hub_split: str
    column: str
    shard: int
    shards: int
    split: str | None = None
    weight: int = PART

    def pieces(self) -> Iterator[Piece]:
        for record in self._records():
            if self.column not in record:
                fail(
                    f"{self.name} has no column {self.column!r}",
                    got=", ".join(record),
                    allowed="one of them",
                    do="name it with --column",
                )
            text = record[self.column]
            yield Piece(str(text)) if text else NOTHING

    def _records(self) -> Iterator[dict[str, Any]]:
        datasets = _client()
        try:
            whole = datasets.load_dataset(self.name, self.config, split=self.hub_split, streaming=True)
            yield from whole.shard(self.shards, self.shard)
        except Exception as error:  # the data set was there before: an OSError, so that the finished parts are kept
            what = f"reading the data set {self.name!r} failed: {first_line(error)}"
            raise OSError(f"{what}; check the network, then run the same command again to resume") from None


def hub(name: str, config: str | None = None, split: str = "train", column: str = "text") -> Source:
    """A data set on the Hugging Face hub (or a local folder in its format), one document per row."""
    datasets = _client()
    try:
        shards = datasets.load_dataset(name, config, split=split, streaming=True).num_shards
    except Exception as error:  # the hub client raises many kinds, all meaning "not there or no network"
        fail(
            f"the data set {name!r} could not be opened",
            got=first_line(error),
            allowed="a data set on the hub",
            do="check the name and the network",
        )
    return Source([HubPart(name, config, split, column, i, shards) for i in range(shards)], rows=False)


def _client() -> Any:
    return extra("datasets", "hub", "a data set from the hub")
