"""Sampling with uniform noise: free positions start as random tokens and are redrawn in every step."""

from collections.abc import Iterator
from itertools import pairwise

import torch
from torch import Tensor

from ..core import Process, Streams, inverse_cdf
from ..core.grid import check_grid
from ..core.numeric import softmax_dtype
from ..core.uniform_noise import log_reverse
from .frame import Frame, put, times
from .predict import Answer, Predictor


def uniform(predict: Predictor, process: Process, x: Tensor, grid: Tensor, streams: Streams) -> Iterator[Frame]:
    """x_s ~ p(x_s | x_t) along the grid. Given tokens stay fixed and affect the rest only as inputs."""
    check_grid(grid)
    free = x == process.mask_id
    x = torch.where(free, (streams.fork("start").uniform(*x.shape[1:]) * process.vocab_size).long(), x)
    for step, (t, s) in enumerate(pairwise(grid.tolist())):
        now, then = times(t, x), times(s, x)
        what, before = streams.at(step).uniform(*x.shape[1:])[free], x
        tokens = _drawn(process, predict.ask(x, now, free), x[free], then, now, free, what)
        x = put(x, free, tokens)
        yield Frame(step + 1, then, x, x != before, predict.calls)


def _drawn(process: Process, answer: Answer, x_t: Tensor, s: Tensor, t: Tensor, free: Tensor, what: Tensor) -> Tensor:
    row = free.nonzero()[:, 0]
    alpha_s, alpha_t = process.schedule.alpha(s)[row], process.schedule.alpha(t)[row]

    def draw(logits: Tensor, part: slice) -> tuple[Tensor]:
        log_mu = logits.log_softmax(-1, dtype=softmax_dtype(logits))
        return (inverse_cdf(log_reverse(x_t[part], log_mu, alpha_s[part], alpha_t[part]), what[part]),)

    return answer.each(draw)[0]
