"""Samples as files: a text, or a grid of images."""

import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ..data.vocabulary import Integers, Vocabulary
from ..files import atomic_write
from .folder import Facts


def is_picture(vocabulary: Vocabulary, shape: tuple[int, ...]) -> bool:
    """Whether rows of this shape are images: pixels in two dimensions, with or without colour."""
    flat = len(shape) == 2 or (len(shape) == 3 and shape[2] == 3)
    return flat and isinstance(vocabulary, Integers) and vocabulary.size == 256


def texts(samples: Tensor, vocabulary: Vocabulary) -> list[str]:
    """Each row decoded."""
    return [vocabulary.decode(row) for row in samples.flatten(1).numpy()]


def write_preview(folder: Path, step: int, samples: Tensor, vocabulary: Vocabulary, facts: Facts) -> Path:
    """Write samples/step-XXXXXXXX.png for images, .txt for everything else."""
    name = f"step-{step:08d}"
    if is_picture(vocabulary, facts.shape):
        path = folder / f"{name}.png"
        with atomic_write(path) as image:
            image.write(png(image_grid(samples.numpy().astype(np.uint8))))
    else:
        path = folder / f"{name}.txt"
        with atomic_write(path, "w") as file:
            file.write("\n\n".join(texts(samples, vocabulary)) + "\n")
    return path


def image_grid(images: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Images [B, H, W(, 3)] side by side in a near-square grid, one pixel apart."""
    count, height, width = images.shape[:3]
    across = int(np.ceil(count**0.5))
    down = -(-count // across)
    canvas = np.zeros((down * (height + 1) - 1, across * (width + 1) - 1, *images.shape[3:]), dtype=np.uint8)
    for i, image in enumerate(images):
        top, left = i // across * (height + 1), i % across * (width + 1)
        canvas[top : top + height, left : left + width] = image
    return canvas


def png(pixels: NDArray[Any]) -> bytes:
    """An image [H, W] (grey) or [H, W, 3] (colour) as PNG: 8 bits, no filter, one compressed block."""
    height, width = pixels.shape[:2]
    colour = 2 if pixels.ndim == 3 else 0
    lines = b"".join(b"\0" + line.astype(np.uint8).tobytes() for line in pixels)
    header = struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body
