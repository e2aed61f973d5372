"""The shipped model of digits: class-conditional pictures, pixel by pixel."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich.text import Text

from unmask.files import written_whole
from unmask.run import Sampling, load
from unmask.run.previews import grid_of, png

from .stage import Stage

_STEPS, _DRAWN = 24, 5
_RAMP = " .:-=+*#%@"


def draw(stage: Stage) -> dict[str, Any]:
    """Some digits in the terminal, and as a picture."""
    model = load("digits")
    labels = [(stage.seed + 2 * i) % 10 for i in range(_DRAWN)]
    rows = []
    for number, label in enumerate(labels):
        how = Sampling(steps=_STEPS, seed=stage.seed, label=label, guidance=1.5)
        found = model.fill(model.blank(1, stage.seed), how, torch.tensor([number]))
        rows.append(found.tokens[0].cpu().numpy().astype(np.uint8))
    pictures = np.stack(rows)
    stage.console.print(side_by_side(pictures, stage.live))
    path: Path = stage.out / "digits.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    with written_whole(path) as file:
        file.write(png(grid_of(pictures)))
    stage.console.print(f"asked for {', '.join(map(str, labels))}; the picture: {path}", soft_wrap=True)
    return {"labels": labels, "picture": str(path)}


def side_by_side(pictures: NDArray[np.uint8], colour: bool) -> Text:
    """Half the size: two pixels in a column, four rows in a line of half blocks, or characters by brightness."""
    count, height, width = pictures.shape
    joined = pictures.transpose(1, 0, 2).reshape(height, count * width)
    half = joined[: height // 2 * 2].reshape(height // 2, 2, -1, 2).mean((1, 3)).astype(int)
    text = Text()
    for top in range(0, len(half) - 1, 2):
        for upper, lower in zip(half[top].tolist(), half[top + 1].tolist(), strict=True):
            if colour:
                text.append("▀", style=f"rgb({upper},{upper},{upper}) on rgb({lower},{lower},{lower})")
            else:
                text.append(_RAMP[(upper + lower) // 2 * (len(_RAMP) - 1) // 255])
        text.append("\n")
    return text
