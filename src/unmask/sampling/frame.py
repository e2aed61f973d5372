"""Frames, the states of a trajectory, and helpers for building them."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Frame:
    """One state on the way from masks to data."""

    step: int
    """Number of steps taken."""
    t: Tensor
    """The time of each sample [B], from 1 down to 0."""
    tokens: Tensor
    """[B, ...]; the mask id where nothing is revealed."""
    changed: Tensor
    """The positions that this step changed, bool in the shape of the tokens."""
    calls: int = 0
    """Network calls so far, counted per sample and summed."""


def times(t: float, x: Tensor) -> Tensor:
    """The same time for every row of x."""
    return torch.full((len(x),), t, dtype=torch.float64, device=x.device)


def put(x: Tensor, where: Tensor, tokens: Tensor) -> Tensor:
    """x with `tokens` [M] written to the positions `where`, in order."""
    return x.masked_scatter(where, tokens.to(x.dtype))


def spread(values: Tensor, where: Tensor, fill: float) -> Tensor:
    """Values [M] at the positions `where` of a batch, `fill` elsewhere."""
    return torch.full(where.shape, fill, dtype=values.dtype, device=values.device).masked_scatter(where, values)


def highest(score: Tensor, count: Tensor) -> Tensor:
    """The `count` [B] positions with the highest score in each row, bool; ties go to the first."""
    flat = score.flatten(1)
    order = flat.argsort(dim=1, descending=True, stable=True)
    chosen = torch.arange(flat.shape[1], device=flat.device) < count[:, None]
    return torch.zeros_like(chosen).scatter(1, order, chosen).view_as(score)


def number(mask: Tensor) -> Tensor:
    """The number of true positions in each row [B]."""
    return mask.flatten(1).sum(1)


def together(rows: Sequence[Tensor], most: int) -> list[list[int]]:
    """Indices of rows that can be filled in one batch: rows of the same shape, at most `most` of them."""
    batches = []
    for shape in dict.fromkeys(row.shape for row in rows):
        same = [i for i, row in enumerate(rows) if row.shape == shape]
        batches += [same[i : i + most] for i in range(0, len(same), most)]
    return batches
