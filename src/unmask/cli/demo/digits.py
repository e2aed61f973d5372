"""The shipped model of digits: class-conditional images, pixel by pixel."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich.text import Text

from unmask.files import atomic_write
from unmask.run import Sampling, load
from unmask.run.previews import image_grid, png

from .stage import Stage

_STEPS, _DRAWN = 24, 5
_RAMP = " .:-=+*#%@"
_BLOCKS = " ▘▝▀▖▌▞▛▗▚▐▜▄▙▟█"
_HALF = 127


def draw(stage: Stage) -> dict[str, Any]:
    """Show some digits in the terminal, and write them to an image."""
    model = load("digits")
    labels = [(stage.seed + 2 * i) % 10 for i in range(_DRAWN)]
    rows = []
    for number, label in enumerate(labels):
        how = Sampling(steps=_STEPS, seed=stage.seed, label=label, guidance=1.5)
        found = model.fill(model.blank(1, stage.seed), how, torch.tensor([number]))
        rows.append(found.tokens[0].cpu().numpy().astype(np.uint8))
    pictures = np.stack(rows)
    stage.console.print(side_by_side(pictures, stage.console.encoding.startswith("utf")))
    path: Path = stage.out / "digits.png"
    with atomic_write(path) as file:
        file.write(png(image_grid(pictures)))
    stage.console.print(f"asked for {', '.join(map(str, labels))}; wrote {path}", soft_wrap=True)
    return {"labels": labels, "picture": str(path)}


def side_by_side(pictures: NDArray[np.uint8], blocks: bool) -> Text:
    """Four pixels per character: quarters of a block, or a character chosen by brightness."""
    count, height, width = pictures.shape
    joined = pictures.transpose(1, 0, 2).reshape(height, count * width)
    cells = joined[: height // 2 * 2].reshape(height // 2, 2, -1, 2).transpose(0, 2, 1, 3)
    shown = (_quarters if blocks else _brightness)(cells.reshape(*cells.shape[:2], 4))
    return Text("\n".join("".join(line).rstrip() for line in shown))


def _quarters(cells: NDArray[np.uint8]) -> list[list[str]]:
    """Blocks by which pixels are more than half bright: top left, top right, bottom left, bottom right."""
    numbers = (cells > _HALF) @ np.array([1, 2, 4, 8])
    return [[_BLOCKS[number] for number in line] for line in numbers.tolist()]


def _brightness(cells: NDArray[np.uint8]) -> list[list[str]]:
    ranks = cells.mean(-1).astype(int) * (len(_RAMP) - 1) // 255
    return [[_RAMP[rank] for rank in line] for line in ranks.tolist()]
