"""Sequences longer than those a model was trained on: window after window, each reading the end of the one before."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from ..core import Process, Streams
from ..mistakes import require
from .frame import Frame
from .predict import Predictor
from .samplers import SamplerFunction


def in_blocks(run: SamplerFunction, window: int) -> SamplerFunction:
    """A sampler for rows [B, L] of any length, from one for `window` positions (semi-autoregressive).

    The first window is filled, then half a window of new positions at a time, each block seeing what comes before it
    in the window. Rows that fit are left to the sampler itself.
    """

    def blocks(
        predict: Predictor, process: Process, x: Tensor, grid: Tensor, streams: Streams, **options: Any
    ) -> Iterator[Frame]:
        if x.shape[1] <= window:
            yield from run(predict, process, x, grid, streams, **options)
            return
        require(
            window >= 2,
            "the window leaves no context for longer rows",
            got=window,
            allowed="an integer >= 2",
            do="sample rows that fit",
        )
        step = 0
        ends = [*range(window, x.shape[1], window // 2), x.shape[1]]
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
