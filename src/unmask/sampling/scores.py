"""SEDD's samplers: probabilities from scores, whose sum may differ from that of the schedule.

With logits c = log s − log α/(1−α) and Z = Σ e^c, a masked position becomes v with the schedule's own probability
times e^{c_v}: more often than scheduled where Z > 1, less often where Z < 1. With probabilities (Z = 1) it is MD4.
"""

from collections.abc import Iterator
from itertools import pairwise

import torch
from torch import Tensor

from ..core import Process, Streams, inverse_cdf
from ..core.grid import check_grid
from ..mistakes import require
from . import ancestral as plain
from .family import SCORES
from .frame import Frame, put, times
from .predict import Answer, Predictor


def analytic(predict: Predictor, process: Process, x: Tensor, grid: Tensor, streams: Streams) -> Iterator[Frame]:
    """The analytic step: probability (α_s/α_t − 1)·s_v, which is (α_s−α_t)/(1−α_t)·e^{c_v}."""
    if predict.family is not SCORES:
        return plain.ancestral(predict, process, x, grid, streams)
    return _by_scores(predict, process, x, grid, streams, process.schedule.unmask_prob)


def euler(predict: Predictor, process: Process, x: Tensor, grid: Tensor, streams: Streams) -> Iterator[Frame]:
    """Euler steps of the reverse chain: probability (t−s)·β·s_v."""
    if predict.family is not SCORES:
        return plain.euler(predict, process, x, grid, streams)
    return _by_scores(predict, process, x, grid, streams, lambda s, t: (t - s) * plain.rate(process, s, t))


def _by_scores(
    predict: Predictor, process: Process, x: Tensor, grid: Tensor, streams: Streams, chance: plain.Chance
) -> Iterator[Frame]:
    require(
        not predict.filtered,
        "temperature, top-k and top-p are not defined for scores",
        got="one of them",
        allowed="none with this sampler",
        do="use ancestral, which normalises the scores",
    )
    check_grid(grid)
    for step, (t, s) in enumerate(pairwise(grid.tolist())):
        now, then, own, mask = times(t, x), times(s, x), streams.at(step), x == process.mask_id
        where, what = own.uniforms(2, *x.shape[1:])
        chosen = torch.zeros_like(mask)
        if mask.any():
            total, tokens = _sums_and_tokens(predict.ask(x, now, mask), what[mask])
            chances = chance(then, now)[mask.nonzero()[:, 0]] * total
            revealed = where[mask] < chances
            chosen = chosen.masked_scatter(mask, revealed)
            x = put(x, chosen, tokens[revealed])
        yield Frame(step + 1, then, x, chosen, predict.calls)


def _sums_and_tokens(answer: Answer, what: Tensor) -> tuple[Tensor, ...]:
    """Z of each position, and a token drawn by its scores."""
    return answer.each(lambda c, part: (c.double().exp().sum(-1), inverse_cdf(c, what[part])))
