"""Samplers that reveal as many positions per call as the network is certain about; they need no grid."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from ..core import Process, Streams, inverse_cdf
from ..mistakes import require
from .frame import Frame, number, put, spread
from .order import entropies
from .predict import Predictor

Measure = Callable[[Tensor], Tensor]
"""Logits [M, V] → how certain the network is at each position [M]."""
Choose = Callable[[Tensor, Tensor], Tensor]
"""(certainty [M], masked positions [B, ...]) → the positions to reveal, bool [B, ...]."""


def entropy_bounded(
    predict: Predictor, process: Process, x: Tensor, grid: Tensor, streams: Streams, *, gamma: float = 0.1
) -> Iterator[Frame]:
    """Reveal the most certain positions together while ΣH − max H ≤ γ nats, which bounds the KL cost of drawing them
    independently (Ben-Hamu et al., 2025).
    """
    require(gamma >= 0, "gamma is negative", got=gamma, allowed=">= 0 nats", do="use 0 for one at a time")

    def choose(entropy: Tensor, mask: Tensor) -> Tensor:
        h = spread(entropy, mask, torch.inf).flatten(1)
        ordered, order = h.sort(dim=1, stable=True)
        finite = ordered.nan_to_num(posinf=0.0)
        within = (finite.cumsum(1) - ordered <= gamma) & (ordered < torch.inf)  # sorted: the last is the largest
        within[:, 0] = mask.flatten(1).any(1)
        return torch.zeros_like(within).scatter(1, order, within).view_as(mask)

    return _until_done(predict, process, x, grid, streams, entropies, choose)


def threshold(
    predict: Predictor, process: Process, x: Tensor, grid: Tensor, streams: Streams, *, probability: float = 0.9
) -> Iterator[Frame]:
    """Reveal every position whose top token has at least this probability, and at least one (Wu et al., 2025)."""
    require(
        0 < probability <= 1,
        "the probability is out of range",
        got=probability,
        allowed="0 < p <= 1",
        do="use 0.9",
    )

    def largest(logits: Tensor) -> Tensor:
        return (logits.amax(-1).double() - logits.double().logsumexp(-1)).exp()

    def choose(largest: Tensor, mask: Tensor) -> Tensor:
        best = spread(largest, mask, -1.0)
        most = best.flatten(1).argmax(1)
        sure = (best >= probability).flatten(1)
        sure[torch.arange(len(sure), device=sure.device), most] = True
        return sure.view_as(mask) & mask

    return _until_done(predict, process, x, grid, streams, largest, choose)


def _until_done(
    predict: Predictor, process: Process, x: Tensor, grid: Tensor, streams: Streams, measure: Measure, choose: Choose
) -> Iterator[Frame]:
    """The network sees the time at which the schedule would have masked the same share of positions."""
    schedule, step, mask = process.schedule, 0, x == process.mask_id
    start, first = number(mask).clamp(min=1), schedule.mask_prob(grid[:1].to(x.device))
    while bool(mask.any()):
        t = schedule.inverse_mask_prob(number(mask) / start * first)
        what = streams.at(step).uniform(*x.shape[1:])
        answer = predict.ask(x, t, mask)
        (sure,) = answer.each(lambda logits, _: (measure(logits),))
        chosen = choose(sure, mask)
        x = put(x, chosen, inverse_cdf(answer.of(chosen[mask]), what[chosen]))
        mask, step = x == process.mask_id, step + 1
        yield Frame(step, schedule.inverse_mask_prob(number(mask) / start * first), x, chosen, predict.calls)
