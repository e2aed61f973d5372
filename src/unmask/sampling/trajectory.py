"""From masks to data: everything that shows or returns samples consumes `trajectory`."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..core import Process, Streams
from ..mistakes import require
from .ancestral import draw_remaining
from .blocks import in_blocks
from .family import BLOCKS, CAUSAL
from .frame import Frame, times
from .predict import Predictor
from .samplers import SamplerFunction, check


@dataclass(frozen=True)
class Sampled:
    """The result of sampling."""

    tokens: Tensor
    """[B, ...]."""
    calls: float
    """Network calls per sample."""


def trajectory(
    predict: Predictor,
    process: Process,
    x: Tensor,
    grid: Tensor,
    streams: Streams,
    sampler: str = "ancestral",
    *,
    window: int | None = None,
    fill: int | None = None,
    **options: Any,
) -> Iterator[Frame]:
    """Fill the masked positions of x [B, ...] and yield a frame per step; the first frame is x itself.

    Unmasked positions of x never change. Row b draws from stream b, so a sample does not depend on the rest of its
    batch. window: the longest row that the network supports; longer rows are filled block by block. fill: the token
    after the end of rows of different lengths. Positions that a schedule ending early leaves masked are drawn in one
    additional step, separately for each block.
    """
    run = _completed(check(sampler, process, predict, options).run)
    if predict.family in (CAUSAL, BLOCKS):
        _check_open_end((x == predict.mask_id) | ended(x, fill))
    if window is not None and x.ndim == 2:
        run = in_blocks(run, window)
    return _frames(_start(x, grid), run(predict, process, x, grid, streams, **options))


def ended(x: Tensor, fill: int | None) -> Tensor:
    """Where rows [B, N] have ended, that is, only `fill` follows; nowhere if `fill` is None."""
    if fill is None:
        return torch.zeros_like(x, dtype=torch.bool)
    return (x == fill).flip(1).cumprod(1).flip(1).bool()


def _check_open_end(open_: Tensor) -> None:
    """Check for gaps before given tokens, which a model that reads from left to right cannot fill."""
    flat = open_.flatten(1)
    require(
        not bool((flat[:, :-1] & ~flat[:, 1:]).any()),
        "a model that reads from left to right cannot fill this gap",
        got="a gap before given text",
        allowed="gaps at the end",
        do="use a masked diffusion model",
    )


def _start(x: Tensor, grid: Tensor) -> Frame:
    return Frame(0, times(grid[0].item(), x), x, torch.zeros_like(x, dtype=torch.bool))


def _completed(run: SamplerFunction) -> SamplerFunction:
    """The sampler with one additional step for the positions that it leaves masked."""

    def completed(
        predict: Predictor, process: Process, x: Tensor, grid: Tensor, streams: Streams, **options: Any
    ) -> Iterator[Frame]:
        last = _start(x, grid)
        for last in run(predict, process, x, grid, streams, **options):
            yield last
        left = last.tokens == predict.mask_id
        if bool(left.any()):
            tokens = draw_remaining(predict, last.tokens, last.t, left, streams)
            yield Frame(last.step + 1, torch.zeros_like(last.t), tokens, left, predict.calls)

    return completed


@torch.no_grad()  # while a frame is computed, not while the caller uses it
def _frames(start: Frame, rest: Iterator[Frame]) -> Iterator[Frame]:
    yield start
    yield from rest


def sample(
    predict: Predictor,
    process: Process,
    x: Tensor,
    grid: Tensor,
    streams: Streams,
    sampler: str = "ancestral",
    **options: Any,
) -> Sampled:
    """Run a trajectory and return its last state."""
    for frame in trajectory(predict, process, x, grid, streams, sampler, **options):
        tokens, calls = frame.tokens, frame.calls
    return Sampled(tokens, calls / max(1, len(x)))


def blank(
    shape: tuple[int, ...], mask_id: int, streams: Streams, counts: Tensor | None = None, fill: int = 0
) -> Tensor:
    """Rows [B, *shape] that are entirely masked.

    If the rows of the data differ in length, a model has learned p(row | length): then `counts` tells how many rows of
    the data have 0, 1, 2, … tokens, each row draws a length, and the positions beyond it hold `fill`, as in training.
    """
    x = torch.full((len(streams), *shape), mask_id, device=streams.device)
    if counts is None:
        return x
    up_to = counts.to(x.device).cumsum(0)
    drawn = (streams.fork("lengths").uniform() * up_to[-1]).long()
    ends = torch.searchsorted(up_to, drawn, right=True)
    return x.masked_fill(torch.arange(shape[0], device=x.device) >= ends[:, None], fill)
