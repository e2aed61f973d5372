"""Images as rows of pixels 0..255: folders, MNIST, CIFAR-10, downsampled ImageNet 64×64.

Pixels are kept as [height, width, channels]; a grey image has no channel axis.
"""

import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...mistakes import extra, fail, first_line, require
from .. import files
from .arrays import Stored, arrays
from .source import SPLITS, Part, Piece, Source

SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".ppm", ".pgm"}
CIFAR10_URL = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
CIFAR10_MD5 = "c32a1d4ab5d03f1284b67883e8d87530"


@dataclass(frozen=True)
class ImagesPart:
    """Image files, each with its class; resized if a size is given."""

    paths: tuple[Path, ...]
    labels: tuple[str | None, ...]
    size: int | None
    grey: bool
    split: str | None = None

    @property
    def weight(self) -> int:
        return sum(path.stat().st_size for path in self.paths)

    def pieces(self) -> Iterator[Piece]:
        for path, label in zip(self.paths, self.labels, strict=True):
            picture = read_picture(path, self.grey)
            if self.size:
                picture = square(picture, self.size)
            yield Piece(np.asarray(picture, dtype=np.uint8), label)


def read_picture(path: Path, grey: bool) -> Any:
    """Read an image file with Pillow, in grey or in colour."""
    image = extra("PIL.Image", "images", "reading images")
    try:
        with image.open(path) as opened:
            mode, picture = opened.mode, opened.convert("L" if grey else "RGB")
    except image.UnidentifiedImageError:
        got = "another kind of file"
        fail(f"{path} is not a readable image", got=got, allowed="an image file", do="remove or replace it")
    except FileNotFoundError:
        fail(f"{path} is not a readable image", got="no such file", allowed="an image file", do="check the path")
    except (OSError, ValueError, image.DecompressionBombError) as error:
        fail(
            f"{path} is not a readable image", got=first_line(error), allowed="an image file", do="remove or replace it"
        )
    good, do = mode[0] not in "IF", "scale it to 0..255 first: larger values would be clipped"
    require(good, f"{path} has more than 256 levels", got=f"mode {mode}", allowed="8 bits per channel", do=do)
    return picture


def square(picture: Any, size: int) -> Any:
    """The centre square, resized by averaging."""
    image = extra("PIL.Image", "images", "resizing images")
    side = min(picture.size)
    left, top = (picture.width - side) // 2, (picture.height - side) // 2
    return picture.crop((left, top, left + side, top + side)).resize((size, size), image.Resampling.BOX)


def image_folder(root: Path, size: int | None, grey: bool) -> Source:
    """A folder of images; sub-folders are classes, and train, valid or test above them are splits."""
    splits: list[tuple[str | None, Path]] = [
        (SPLITS[d.name], d) for d in sorted(root.iterdir()) if d.is_dir() and d.name in SPLITS
    ]
    parts: list[Part] = []
    for split, folder in splits or [(None, root)]:
        paths = _pictures_below(folder)
        labels = [p.relative_to(folder).parts[0] if p.parent != folder else None for p in paths]
        for start in range(0, len(paths), 512):
            chunk = slice(start, start + 512)
            parts.append(ImagesPart(tuple(paths[chunk]), tuple(labels[chunk]), size, grey, split))
    if splits:
        _check_all_in([folder for _, folder in splits], root)
    if not parts:
        allowed = ", ".join(sorted(SUFFIXES))
        fail(f"{root} holds no images", got="other files", allowed=allowed, do="name another folder or --kind")
    return Source(parts, rows=True, values=256)


def _pictures_below(folder: Path) -> list[Path]:
    return sorted(p for p in folder.rglob("*") if p.suffix.lower() in SUFFIXES)


def _check_all_in(folders: list[Path], root: Path) -> None:
    """Refuse images beside the splits, which would otherwise be left out silently."""
    beside = [p for p in _pictures_below(root) if not any(p.is_relative_to(folder) for folder in folders)]
    if beside:
        allowed = f"images in {', '.join(folder.name for folder in folders)}, or no folders with these names"
        fail(f"{root} has splits, and images beside them", got=beside[0], allowed=allowed, do="move or rename them")


@dataclass(frozen=True)
class MnistPart:
    """One of MNIST's pairs of idx files (images and labels), compressed or not."""

    images: Path
    labels: Path
    split: str

    @property
    def weight(self) -> int:
        return self.images.stat().st_size

    def pieces(self) -> Iterator[Piece]:
        pixels, labels = read_idx(self.images), read_idx(self.labels)
        if len(pixels) != len(labels):
            got = f"{len(pixels)} images, {len(labels)} labels"
            fail(f"{self.images} and its labels differ in number", got=got, allowed="one each", do="fetch them again")
        for image, label in zip(pixels, labels.tolist(), strict=True):
            yield Piece(image, label)


def read_idx(path: Path) -> NDArray[np.uint8]:
    """An idx file of bytes: 0, 0, 8, the number of axes, their sizes (big-endian), the values."""
    with files.readable(path) as file:
        data = file.read()
    axes = data[3] if len(data) > 4 else 0
    shape = tuple(int.from_bytes(data[4 + 4 * i : 8 + 4 * i]) for i in range(axes))
    if data[:3] != b"\0\0\x08" or len(data) - 4 - 4 * axes != int(np.prod(shape)):
        fail(
            f"{path} is not an idx file of bytes",
            got=f"{data[:4].hex()}, {len(data)} bytes",
            allowed="idx",
            do="fetch it again",
        )
    return np.frombuffer(data, np.uint8, offset=4 + 4 * axes).reshape(shape)


def is_mnist(root: Path) -> bool:
    """Whether a folder holds MNIST's files."""
    return any(root.glob("train-images*idx3-ubyte*"))


def mnist(root: Path) -> Source:
    """MNIST's four idx files, or those of a data set in the same format."""
    parts: list[Part] = []
    for split, prefix in (("train", "train"), ("test", "t10k")):
        found = [sorted(root.glob(f"{prefix}-{kind}*ubyte*")) for kind in ("images", "labels")]
        if not all(found):
            fail(
                f"{root} lacks MNIST's {split} files",
                got=[p.name for p in sorted(root.iterdir())][:6],
                allowed=f"{prefix}-images-idx3-ubyte and {prefix}-labels-idx1-ubyte (.gz, .xz)",
                do="fetch them",
            )
        parts.append(MnistPart(found[0][0], found[1][0], split))
    return Source(parts, rows=True, values=256)


@dataclass(frozen=True)
class CifarPart:
    """One batch of CIFAR-10's binary version: records of 1 label byte and 3×32×32 channel-first pixels."""

    path: Path
    member: str | None
    split: str
    weight: int = 30_730_000

    def pieces(self) -> Iterator[Piece]:
        records = np.frombuffer(self._read(), np.uint8)
        if records.size % 3073:
            fail(
                f"{self.path} is not a CIFAR-10 batch",
                got=f"{records.size} bytes",
                allowed="a multiple of 3073",
                do="fetch it again",
            )
        for record in records.reshape(-1, 3073):
            yield Piece(record[1:].reshape(3, 32, 32).transpose(1, 2, 0), int(record[0]))

    def _read(self) -> bytes:
        if self.member is None:
            return self.path.read_bytes()
        with files.naming_damage(self.path), tarfile.open(self.path) as archive:
            file = archive.extractfile(self.member)
            return file.read() if file else b""


def cifar10(path: Path) -> Source:
    """CIFAR-10 from the official binary archive, its folder, or an .npz with train_images, train_labels, …"""
    if path.suffix == ".npz":
        return arrays([path], None, None)
    batches: list[tuple[Path, str | None]]
    if path.is_dir():
        batches = [(p, None) for p in sorted(path.rglob("*_batch*.bin"))]
    else:
        with files.naming_damage(path), tarfile.open(path) as archive:
            batches = [(path, name) for name in sorted(archive.getnames()) if name.endswith(".bin")]
    parts: list[Part] = [CifarPart(p, m, "test" if "test" in Path(m or p).name else "train") for p, m in batches]
    if not parts:
        fail(
            f"{path} holds no CIFAR-10 batch",
            got="no *_batch*.bin",
            allowed=f"the binary version ({CIFAR10_URL}) or an .npz",
            do="fetch it",
        )
    return Source(parts, rows=True, values=256)


@dataclass(frozen=True)
class ImageNetPart:
    """One of the official npz batches of downsampled ImageNet: 'data' channel-first, 'labels' from 1."""

    path: Path
    side: int
    split: str

    @property
    def weight(self) -> int:
        return self.path.stat().st_size

    def pieces(self) -> Iterator[Piece]:
        labels = iter(Stored(self.path, "labels").whole().reshape(-1).tolist())
        for block in Stored(self.path, "data").blocks():
            for pixels in block.reshape(-1, 3, self.side, self.side).transpose(0, 2, 3, 1):
                yield Piece(pixels, next(labels) - 1)


def imagenet64(root: Path, side: int = 64) -> Source:
    """Downsampled ImageNet: train_data_batch_1..10.npz (or train_data*.npz) and val_data.npz."""
    parts: list[Part] = []
    for split, pattern in (("train", "train_data*.npz"), ("valid", "val_data*.npz")):
        for path in sorted(root.glob(pattern), key=lambda p: (len(p.name), p.name)):
            shape, dtype = Stored(path, "data").header()
            if shape[1:] != (3 * side**2,) or dtype != np.uint8:
                got = f"{dtype} of shape {shape}"
                fail(f"{path} is not {side}×{side}", got=got, allowed=f"bytes (n, {3 * side**2})", do="fetch it again")
            parts.append(ImageNetPart(path, side, split))
    if not parts:
        fail(
            f"{root} holds no ImageNet batch",
            got="no train_data*.npz",
            allowed="the official npz batches",
            do="fetch them",
        )
    return Source(parts, rows=True, values=256)
