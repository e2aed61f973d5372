"""Ancestral sampling (Alg. 2): at each step of a grid masked positions are revealed, each by its chance."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from ..core import Denoiser, Process, Streams
from ..core.grid import check_grid


@dataclass(frozen=True)
class Frame:
    """One state of a trajectory."""

    step: int
    """Steps taken."""
    t: float
    tokens: Tensor
    """[B, ...]; the mask id where nothing is revealed yet."""


@torch.no_grad()
def ancestral(
    denoiser: Denoiser, process: Process, x: Tensor, grid: Tensor, streams: Streams, condition: Any = None
) -> Iterator[Frame]:
    """Fill the masked positions of x [B, ...]: a frame for each time of the grid; row b draws from stream b.

    Exact for the T-step model: first which positions are revealed, then their tokens (`Process.draw_reverse`).
    """
    check_grid(grid)
    yield Frame(0, grid[0].item(), x)
    for step, (t, s) in enumerate(pairwise(grid.tolist())):
        now, then = (torch.full((len(x),), time, dtype=torch.float64, device=x.device) for time in (t, s))
        logits = denoiser(x, now, condition)[x == process.mask_id]
        x = process.draw_reverse(x, logits, then, now, streams.at(step))
        yield Frame(step + 1, s, x)


def sample(
    denoiser: Denoiser, process: Process, x: Tensor, grid: Tensor, streams: Streams, condition: Any = None
) -> Tensor:
    """The last frame of the trajectory [B, ...]."""
    for frame in ancestral(denoiser, process, x, grid, streams, condition):
        x = frame.tokens
    return x


def blank(
    shape: tuple[int, ...], mask_id: int, streams: Streams, lengths: Tensor | None = None, fill: int = 0
) -> Tensor:
    """Rows [B, *shape] with everything to fill in.

    Where rows of the data differ in length, a model has learned p(row | length): then `lengths` holds those of the
    data, each row draws one of them, and what lies beyond is `fill`, as it was in training.
    """
    x = torch.full((len(streams), *shape), mask_id, device=streams.device)
    if lengths is None:
        return x
    drawn = (streams.fork("lengths").uniform() * len(lengths)).long()
    ends = lengths.to(x.device)[drawn]
    return x.masked_fill(torch.arange(shape[0], device=x.device) >= ends[:, None], fill)
