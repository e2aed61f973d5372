"""Sequences longer than those a model was trained on: window after window, each reading the end of the one before."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from ..core import Process, Streams
from ..mistakes import require
from .frame import Frame
from .predict import Predictor
from .samplers import Run


def in_blocks(run: Run, window: int, stride: int | None = None) -> Run:
    """A sampler for rows [B, L] of any length, from one for `window` positions (semi-autoregressive).

    The first window is filled, then `stride` new positions at a time (half a window unless given), each block
    seeing the window − stride positions before it. Rows that fit are left to the sampler itself.
    """
    stride = stride or max(1, window // 2)
    require(
        1 <= stride < window,
        "the stride does not fit the window",
        got=f"{stride} of {window}",
        allowed=f"1..{window - 1}",
        do="leave some context",
    )

    def blocks(
        predict: Predictor, process: Process, x: Tensor, grid: Tensor, streams: Streams, **options: Any
    ) -> Iterator[Frame]:
        if x.shape[1] <= window:
            yield from run(predict, process, x, grid, streams, **options)
            return
        step = 0
        ends = [*range(window, x.shape[1], stride), x.shape[1]]
        for block, end in enumerate(ends):
            inside = slice(end - window, end)
            own = streams.fork(f"block {block}")
            for frame in run(predict, process, x[:, inside], grid, own, **options):
                step += 1
                x = x.clone()
                x[:, inside] = frame.tokens
                changed = torch.zeros(x.shape, dtype=torch.bool, device=x.device)
                changed[:, inside] = frame.changed
                yield Frame(step, frame.t, x, changed, frame.calls)

    return blocks
