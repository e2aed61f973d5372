"""How the random times of a batch are spread over (0, 1).

A spread gives every row its own uniform; rows form consecutive groups of `strata` samples (the global batch
in training, the draws of one sequence in evaluation). Under every spread the marginal of each row is uniform,
so estimators stay unbiased; together the rows of a group cover the interval more evenly.
"""

from typing import Protocol

import torch
from torch import Tensor

from ..mistakes import require
from .streams import Streams

_TINY = 2.0**-53


class Spread(Protocol):
    """(streams, strata) → u [B], each row uniform on (0, 1)."""

    def __call__(self, streams: Streams, strata: int) -> Tensor: ...


def iid(streams: Streams, strata: int) -> Tensor:
    """Independent uniforms."""
    del strata
    return streams.fork("points").uniform()


def lattice(streams: Streams, strata: int) -> Tensor:
    """The paper's Algorithm 1: u_i = mod(u + i/B, 1) with one u per group."""
    shift = _per_group(streams, strata).uniform()
    return ((shift + (streams.index % strata).double() / strata) % 1).clamp(_TINY, 1 - _TINY)


def stratified(streams: Streams, strata: int) -> Tensor:
    """One independent uniform in each of `strata` equal cells; cells are assigned to rows by a random rotation."""
    cell = _cell(streams, strata)
    return _within(cell, streams.fork("points").uniform(), strata)


def balanced(streams: Streams, strata: int) -> Tensor:
    """Stratified, with offsets v and 1−v in neighbouring cells, so that trends across cells cancel.

    Useful if the estimate varies with u through its weight, as when k is drawn by importance.
    """
    cell = _cell(streams, strata)
    neighbours = streams.index // strata * strata + (cell // 2).long()
    v = streams.fork("points", neighbours).uniform()
    return _within(cell, torch.where(cell % 2 == 0, v, 1 - v), strata)


def paired(streams: Streams, strata: int) -> Tensor:
    """Rows 2j and 2j+1 get u and 1−u, with stratified u: for uniform k this gives k and N+1−k.

    u is rounded to the 2^-52 half-grid, where 1−u is exact, so the pair is exactly symmetric.
    """
    require(
        strata % 2 == 0,
        "paired draws need pairs",
        got=f"groups of {strata}",
        allowed="an even number of rows",
        do="use an even batch size or the stratified spread",
    )
    u = stratified(streams.fork("pairs", streams.index // 2), strata // 2)
    u = ((u * 2.0**52).floor() + 0.5) * 2.0**-52
    return torch.where(streams.index % 2 == 0, u, 1 - u)


def _cell(streams: Streams, strata: int) -> Tensor:
    """The cell 0..strata−1 of each row, all different within a group, rotated at random."""
    rotation = (_per_group(streams, strata).uniform() * strata).floor()
    return ((streams.index % strata).double() + rotation) % strata


def _within(cell: Tensor, place: Tensor, strata: int) -> Tensor:
    return ((cell + place) / strata).clamp(_TINY, 1 - _TINY)


def _per_group(streams: Streams, strata: int) -> Streams:
    """A stream shared by all rows of a group."""
    return streams.fork("groups", streams.index // strata)
