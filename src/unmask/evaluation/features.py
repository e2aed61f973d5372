"""Features of images, for distances between sets of images. Their kind decides what a distance may be called."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from ..mistakes import fail, require
from .distances import Features
from .inception import load_inception

Images = NDArray[np.uint8]
"""[n, H, W] grey or [n, H, W, 3] colour."""
_SIDE = 16
"""Pixel features are averaged to at most this many rows and columns: distances need more samples than features."""
_BATCH = 32


@dataclass(frozen=True)
class Extractor:
    """Images → features [n, d]."""

    name: str
    of: Callable[[Images], Features]
    distances: tuple[str, str]
    """Names of the Fréchet and the kernel distance of these features: FID and KID are for Inception only."""


def extractor(wanted: str) -> Extractor:
    """The extractor with this name: pixels, inception:WEIGHTS (see `inception`), or your own MODULE:FUNCTION."""
    kind, _, rest = wanted.partition(":")
    if kind in _KNOWN:
        return _KNOWN[kind](rest)
    known = "pixels, inception:FILE, MODULE:FUNCTION"
    require(bool(rest), "unknown features", got=wanted, allowed=known, do="choose one of them")
    return _named(wanted, _yours(kind, rest))


def _named(name: str, of: Callable[[Images], Features]) -> Extractor:
    return Extractor(name, of, (f"Fréchet distance of {name}", f"kernel distance of {name}"))


def _pixels(images: Images) -> Features:
    """Blocks of pixels averaged, in 0..1."""
    x = images.astype(np.float64).reshape(*images.shape[:3], -1) / 255
    down, across = (max(1, -(-side // _SIDE)) for side in x.shape[1:3])
    height, width = (x.shape[1] // down * down, x.shape[2] // across * across)
    blocks = x[:, :height, :width].reshape(len(x), height // down, down, width // across, across, -1)
    found: Features = blocks.mean((2, 4)).reshape(len(x), -1)
    return found


def _inception(weights: Path) -> Callable[[Images], Features]:
    """Inception's 2,048 features, by which FID and KID are defined."""
    network = load_inception(weights)

    def features(images: Images) -> Features:
        colour = images if images.ndim == 4 else np.repeat(images[..., None], 3, axis=-1)
        rows = torch.from_numpy(colour).permute(0, 3, 1, 2)
        parts = (rows[start : start + _BATCH] for start in range(0, len(rows), _BATCH))
        return np.concatenate([network(part).double().numpy() for part in parts])

    return features


def _yours(module: str, function: str) -> Callable[[Images], Features]:
    try:
        found: Callable[[Images], Features] = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as problem:
        fail("no such features", got=f"{module}:{function} ({problem})", allowed="MODULE:FUNCTION", do="check the name")
    return found


_KNOWN: dict[str, Callable[[str], Extractor]] = {
    "pixels": lambda _: _named("pixels", _pixels),
    "inception": lambda file: Extractor("Inception", _inception(Path(file)), ("FID", "KID")),
}
