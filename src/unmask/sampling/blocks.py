"""Sequences longer than those in training: filled window by window, each seeing the end of the previous one."""

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
    """Turn a sampler for `window` positions into one for rows [B, L] of any length (semi-autoregressive).

    The first window is filled, then half a window of new positions at a time, where each block sees what precedes it
    in its window. Rows that fit into the window go to the sampler unchanged.
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
            do="sample rows that fit into the window",
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
