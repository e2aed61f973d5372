"""Grids: the decreasing times 1 = t(T) > … > t(0) at which a T-step process is observed."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from ..mistakes import require
from . import checks
from .schedule import Linear, Polynomial, Schedule, Shifted, TokenPolynomial

Grid = Callable[[int], Tensor]
"""Maps a number of steps to a grid of times."""


def uniform_grid(num_steps: int) -> Tensor:
    """t(i) = i/T for i = T..0."""
    return _falling_fractions(num_steps)


def cosine_grid(num_steps: int) -> Tensor:
    """t(i) = cos(π/2·(1 − i/T)) for i = T..0, Eq. (6): with the linear schedule, the α of the cosine schedule."""
    return (math.pi / 2 * _falling_fractions(num_steps)).sin()


def fitting_grid(schedule: Schedule) -> Grid:
    """A grid that reveals few tokens while little is known, as the paper recommends.

    The cosine grid if α is 1 − t, and also if it is 1 − t^w, which includes that case; shifted or not. Other schedules
    have a shape of their own, which the uniform grid preserves.
    """
    inner = schedule.schedule if isinstance(schedule, Shifted) else schedule
    return cosine_grid if isinstance(inner, (Linear, Polynomial, TokenPolynomial)) else uniform_grid


def _falling_fractions(num_steps: int) -> Tensor:
    require(
        num_steps >= 1,
        "the number of steps is not positive",
        got=num_steps,
        allowed="an integer >= 1",
        do="use at least one step",
    )
    return torch.arange(num_steps, -1, -1, dtype=torch.float64) / num_steps


def check_grid(grid: Tensor) -> None:
    """A grid must have at least two times in [0, 1], strictly decreasing."""
    require(
        grid.ndim == 1 and len(grid) >= 2,
        "the grid has the wrong shape",
        got=tuple(grid.shape),
        allowed="a vector of at least two times",
        do="use uniform_grid(T) or cosine_grid(T)",
    )
    checks.times(grid, "a grid time")
    require(
        bool((grid.diff() < 0).all()),
        "the grid does not decrease",
        got=[round(t, 6) for t in grid[:4].tolist()],
        allowed="strictly decreasing times",
        do="order it from 1 (all masked) down to 0 (data)",
    )
