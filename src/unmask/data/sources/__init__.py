"""Where data comes from. `find_source` turns what a user names (a path, a pattern, a data set) into a `Source`."""

import glob
import os
import re
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from ...mistakes import fail, first_line, flag
from .. import files
from . import arrays, images, named, text
from .source import NOTHING, SPLITS, Part, Piece, Source

__all__ = ["KINDS", "NAMES", "NOTHING", "Part", "Piece", "Reading", "Source", "find_source"]


def default_cache() -> Path:
    """$UNMASK_CACHE, or a folder in the home directory."""
    return Path(os.environ.get("UNMASK_CACHE") or Path.home() / ".cache" / "unmask")


@dataclass(frozen=True)
class Reading:
    """How to read a source whose format leaves a choice."""

    column: str | None = None
    """The field, column or array that holds the data (default: text, or the only one)."""
    label_column: str | None = None
    """The field, column or array that holds the class."""
    image_size: int | None = None
    """Images are cropped to a square and resized to this side."""
    grey: bool = False
    """Images are converted to greyscale."""
    cache: Path = field(default_factory=default_cache)
    """Where fetched files are kept."""

    def __post_init__(self) -> None:
        if self.image_size is not None and self.image_size < 1:
            do = "leave it out to keep the images as they are"
            fail("the side of the images is not positive", got=self.image_size, allowed="an integer >= 1", do=do)


@dataclass(frozen=True)
class Kind:
    """How one kind of files is read."""

    read: Callable[[list[Path], Reading], Source]
    uses: tuple[str, ...] = ()
    """The options of `Reading` that it supports."""
    suffixes: tuple[str, ...] = ()
    """The suffixes that tell it, before that of a compression."""
    whole: bool = False
    """Whether a folder is read as a whole, and not file by file."""


@dataclass(frozen=True)
class Known:
    """A data set known by name: fetched, or part of the package."""

    read: Callable[[Reading], Source]
    uses: tuple[str, ...] = ()


_COLUMNS = ("column", "label_column")
_SHAKESPEARE = Path(__file__).parent.parent / "corpus" / "shakespeare.txt.xz"

KINDS: dict[str, Kind] = {
    "text": Kind(lambda paths, _: text.text(paths)),
    "lines": Kind(lambda paths, _: text.lines(paths), suffixes=(".smi", ".smiles")),
    "fasta": Kind(lambda paths, _: text.fasta(paths), suffixes=(".fasta", ".fa", ".fna", ".faa")),
    "jsonl": Kind(
        lambda paths, how: text.json_lines(paths, how.column or "text", how.label_column),
        _COLUMNS,
        suffixes=(".jsonl", ".ndjson"),
    ),
    "csv": Kind(
        lambda paths, how: text.table(paths, how.column or "text", how.label_column),
        _COLUMNS,
        suffixes=(".csv", ".tsv"),
    ),
    "parquet": Kind(
        lambda paths, how: text.parquet(paths, how.column or "text", how.label_column),
        _COLUMNS,
        suffixes=(".parquet",),
    ),
    "array": Kind(
        lambda paths, how: arrays.arrays(paths, how.column, how.label_column), _COLUMNS, suffixes=(".npy", ".npz")
    ),
    "images": Kind(
        lambda paths, how: images.image_folder(_only(paths), how.image_size, how.grey),
        ("image_size", "grey"),
        whole=True,
    ),
    "mnist": Kind(lambda paths, _: images.mnist(_only(paths)), whole=True),
    "cifar10": Kind(lambda paths, _: images.cifar10(_only(paths)), whole=True),
    "imagenet64": Kind(lambda paths, _: images.imagenet64(_only(paths)), whole=True),
    "text8": Kind(lambda paths, how: named.text8(_only(paths), how.cache), whole=True),
}
"""Each kind of file or folder."""

NAMES: dict[str, Known] = {
    "text8": Known(lambda how: named.text8(None, how.cache)),
    "mnist": Known(lambda how: named.mnist_by_name(how.cache)),
    "cifar10": Known(lambda how: named.cifar10_by_name(how.cache)),
    "shakespeare": Known(lambda _: text.text([_SHAKESPEARE])),
    "moses": Known(lambda how: named.moses(how.cache, how.column or "SMILES"), ("column",)),
    "openwebtext": Known(lambda how: named.hub("Skylion007/openwebtext", column=how.column or "text"), ("column",)),
    "fineweb-edu": Known(
        lambda how: named.hub("HuggingFaceFW/fineweb-edu", "sample-10BT", column=how.column or "text"), ("column",)
    ),
}
"""Data sets known by name."""

_BY_SUFFIX = {suffix: name for name, kind in KINDS.items() for suffix in kind.suffixes}


def find_source(where: str, kind: str | None = None, reading: Reading | None = None) -> Source:
    """The source at a path, a folder, a pattern (`data/*.txt`), a known name, or `hub:ID`."""
    reading = reading or Reading()
    if where.startswith("hub:"):
        _check_kind(where, kind)
        _check_used("hub", ("column",), reading)
        return named.hub(where.removeprefix("hub:"), column=reading.column or "text")
    if where in NAMES and not Path(where).exists():
        _check_kind(where, kind)
        _check_used(where, NAMES[where].uses, reading)
        return NAMES[where].read(reading)
    paths = _existing(where)
    kind = kind or _kind_of(paths)
    if kind not in KINDS:
        fail("unknown kind of source", got=kind, allowed=", ".join(KINDS), do="name one with --kind")
    _check_used(kind, KINDS[kind].uses, reading)
    inside = [file for path in paths for file in _files_below(path)]
    if not KINDS[kind].whole:
        paths = inside
    if not paths:
        fail("the source is empty", got=where, allowed="at least one file", do="check the folder or the pattern")
    named_splits = _by_split(paths)
    if not named_splits:
        return replace(_opened(kind, paths, reading), files=inside)
    parts = {split: _opened(kind, files, reading) for split, files in named_splits.items()}
    return replace(_joined(parts), files=inside)


def _check_kind(name: str, kind: str | None) -> None:
    """Refuse --kind for data known by name, which leaves no choice."""
    if kind is not None:
        do = "leave it out, or give the path of the files"
        fail(f"the kind of {name} is fixed", got=f"--kind {kind}", allowed="no --kind", do=do)


def _check_used(kind: str, used: tuple[str, ...], reading: Reading) -> None:
    """Refuse an option that would be ignored."""
    choices = (*_COLUMNS, "image_size", "grey")
    for name in choices:
        got = getattr(reading, name)
        if got is not None and got is not False and name not in used:
            allowed = ", ".join(map(flag, used)) or f"none of {', '.join(map(flag, choices))}"
            fail(f"{kind} does not use {flag(name)}", got=got, allowed=allowed, do="leave it out")


def _opened(kind: str, paths: list[Path], reading: Reading) -> Source:
    try:
        return KINDS[kind].read(paths, reading)
    except (NotADirectoryError, tarfile.TarError, zipfile.BadZipFile) as error:
        do = "check the path, or name another --kind"
        fail(f"{paths[0]} cannot be read", got=first_line(error), allowed=f"files of {kind}", do=do)


def _by_split(paths: list[Path]) -> dict[str, list[Path]]:
    """Files by the split in their names (train.csv, wiki.valid.tokens); none unless all have one."""
    found: dict[str, list[Path]] = {}
    for path in paths:
        said = {SPLITS[word] for word in re.split(r"[\W_]+", path.name.lower()) if word in SPLITS}
        if len(said) != 1:
            return {}
        found.setdefault(said.pop(), []).append(path)
    if len(found) > 1 and "train" not in found:  # otherwise test data would be trained on
        got, do = " and ".join(sorted(found)), "add or rename files, or name those of one split by a pattern"
        fail("the files name splits, but none is for training", got=got, allowed="train among them", do=do)
    return found if len(found) > 1 else {}


def _joined(sources: dict[str, Source]) -> Source:
    """Join several sources into one, each as a split."""
    parts = [
        replace(part, split=split)  # type: ignore[type-var]
        for split, source in sources.items()
        for part in source.parts
    ]
    sizes = [source.values for source in sources.values() if source.values is not None]
    return Source(parts, rows=sources["train"].rows, values=max(sizes, default=None))


def _existing(where: str) -> list[Path]:
    if Path(where).exists():
        return [Path(where)]
    found = sorted(Path(p) for p in glob.glob(where, recursive=True))
    if not found:
        fail(
            "no such source",
            got=where,
            allowed=f"a path, a pattern, hub:ID, or one of {', '.join(NAMES)}",
            do="check the spelling",
        )
    return found


def _files_below(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    return sorted(p for p in path.rglob("*") if p.is_file() and not p.name.startswith("."))


def _kind_of(paths: list[Path]) -> str:
    """Guess from what is there: special folders by their files, everything else by the most telling suffix."""
    first = paths[0]
    if first.is_dir():
        if images.is_mnist(first):
            return "mnist"
        inside = _files_below(first)
        if any(p.name.startswith("train_data_batch") for p in inside):
            return "imagenet64"
        if any("_batch" in p.name and p.suffix == ".bin" for p in inside):
            return "cifar10"
        pictures = [p.suffix.lower() in images.SUFFIXES for p in inside]
        if all(pictures) and inside:
            return "images"
        if any(pictures):
            got, allowed = f"{sum(pictures)} images and {len(inside) - sum(pictures)} other files", "one kind at a time"
            do = f"name --kind images, or the other files by a pattern ('{first / '*.txt'}')"
            fail(f"{first} holds several kinds of files", got=got, allowed=allowed, do=do)
        paths = inside or paths
    if paths[0].name.startswith("cifar-10"):
        return "cifar10"
    if first.is_file() and first.stem == "text8" and not files.suffix(first):  # of others, md5 says what to do
        return "text8"
    kinds = {_BY_SUFFIX.get(files.suffix(p), "text") for p in paths}
    if len(kinds) > 1:
        fail(
            "the files are of several kinds",
            got=", ".join(sorted(kinds)),
            allowed="one kind at a time",
            do="name one with --kind",
        )
    return kinds.pop()


def _only(paths: list[Path]) -> Path:
    if len(paths) != 1:
        fail("one path is needed here", got=f"{len(paths)} paths", allowed="one file or folder", do="name it alone")
    return paths[0]
