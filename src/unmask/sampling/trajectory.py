"""From masks to data: the one way in. Everything that shows or returns samples drains `trajectory`."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..core import Process, Streams
from ..mistakes import require
from .ancestral import rest
from .blocks import in_blocks
from .family import BLOCKS, CAUSAL
from .frame import Frame, times
from .predict import Predictor
from .samplers import SamplerFunction, check


@dataclass(frozen=True)
class Sampled:
    """What sampling gave."""

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
    """Fill the masked positions of x [B, ...], a frame for each step; the first frame is x itself.

    What is not masked in x is never changed. Row b draws from stream b: a sample does not depend on the others in its
    batch. window: the longest rows that the network knows; longer ones are filled block by block. fill: what stands
    after the end of rows that differ in length. What a schedule that ends early leaves masked is drawn in one more
    step, of each block its own.
    """
    run = _completed(check(sampler, process, predict, options).run)
    if predict.family in (CAUSAL, BLOCKS):
        _check_open_end((x == predict.mask_id) | ended(x, fill))
    if window is not None and x.ndim == 2:
        run = in_blocks(run, window)
    return _frames(_start(x, grid), run(predict, process, x, grid, streams, **options))


def ended(x: Tensor, fill: int | None) -> Tensor:
    """Where rows [B, N] have ended: nothing but `fill` follows. Nowhere if rows do not differ in length."""
    if fill is None:
        return torch.zeros_like(x, dtype=torch.bool)
    return (x == fill).flip(1).cumprod(1).flip(1).bool()


def _check_open_end(open_: Tensor) -> None:
    """A model that reads from left to right cannot fill a gap before something that is given."""
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
    """The sampler, and one more step for what it leaves masked."""

    def completed(
        predict: Predictor, process: Process, x: Tensor, grid: Tensor, streams: Streams, **options: Any
    ) -> Iterator[Frame]:
        last = _start(x, grid)
        for last in run(predict, process, x, grid, streams, **options):
            yield last
        left = last.tokens == predict.mask_id
        if bool(left.any()):
            tokens = rest(predict, last.tokens, last.t, left, streams)
            yield Frame(last.step + 1, torch.zeros_like(last.t), tokens, left, predict.calls)

    return completed


@torch.no_grad()  # while a frame is made, not while its reader looks at it
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
    """The end of a trajectory."""
    for frame in trajectory(predict, process, x, grid, streams, sampler, **options):
        tokens, calls = frame.tokens, frame.calls
    return Sampled(tokens, calls / max(1, len(x)))


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
