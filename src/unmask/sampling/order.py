"""Samplers that choose positions by the network's predictions or in a fixed order; a grid sets how many per step.

If the predictions decide which positions are revealed together, good-looking samples take fewer steps but no longer
follow the model's distribution.
"""

import math
from collections.abc import Callable, Iterator
from itertools import pairwise

import torch
from torch import Tensor

from ..core import Process, Streams, inverse_cdf
from ..core.grid import check_grid
from ..mistakes import require
from .frame import Frame, highest, number, put, spread, times
from .predict import Answer, Predictor

Score = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
"""(logits [M, V], tokens [M], uniforms [M], masked share after the step [M]) → score [M]; the highest are revealed."""


def confidence(
    predict: Predictor, process: Process, x: Tensor, grid: Tensor, streams: Streams, *, noise: float = 1.0
) -> Iterator[Frame]:
    """MaskGIT (Chang et al., 2022): draw tokens everywhere, keep the highest log μ + noise·(masked share)·Gumbel."""
    require(noise >= 0, "noise is negative", got=noise, allowed=">= 0", do="use 0 for pure confidence")

    def score(logits: Tensor, tokens: Tensor, u: Tensor, share: Tensor) -> Tensor:
        log_mu = logits.double().log_softmax(-1).gather(1, tokens[:, None])[:, 0]
        return log_mu - noise * share * (-u.log()).log()

    return _by_score(predict, process, x, grid, streams, score)


def margin(predict: Predictor, process: Process, x: Tensor, grid: Tensor, streams: Streams) -> Iterator[Frame]:
    """Reveal first where the most likely token is furthest ahead of the second."""

    def score(logits: Tensor, tokens: Tensor, u: Tensor, share: Tensor) -> Tensor:
        del tokens, u, share
        first = logits.double().softmax(-1).topk(min(2, logits.shape[-1]), dim=-1).values
        return first[:, 0] - first[:, -1]

    return _by_score(predict, process, x, grid, streams, score)


def entropy(predict: Predictor, process: Process, x: Tensor, grid: Tensor, streams: Streams) -> Iterator[Frame]:
    """Reveal the positions of lowest entropy first."""

    def score(logits: Tensor, tokens: Tensor, u: Tensor, share: Tensor) -> Tensor:
        del tokens, u, share
        return -entropies(logits)

    return _by_score(predict, process, x, grid, streams, score)


def entropies(logits: Tensor) -> Tensor:
    """The entropy −Σ μ log μ of each row, in nats."""
    log_mu = logits.double().log_softmax(-1)
    return -(log_mu.exp() * log_mu.clamp(min=-1e300)).sum(-1)


def left_to_right(predict: Predictor, process: Process, x: Tensor, grid: Tensor, streams: Streams) -> Iterator[Frame]:
    """One token per call, from left to right; the only sampler for autoregressive models."""
    del grid
    masked = x == process.mask_id
    start, step = number(masked).clamp(min=1), 0
    for place in masked.flatten(1).any(0).nonzero()[:, 0].tolist():
        chosen = torch.zeros_like(masked).flatten(1)
        chosen[:, place] = masked.flatten(1)[:, place]
        chosen = chosen.view_as(x)
        t = process.schedule.inverse_mask_prob(number(x == process.mask_id) / start)
        what = streams.at(place).uniform()[chosen.flatten(1).any(1)]
        x, step = put(x, chosen, inverse_cdf(predict(x, t, chosen), what)), step + 1
        then = process.schedule.inverse_mask_prob(number(x == process.mask_id) / start)
        yield Frame(step, then, x, chosen, predict.calls)


def halton(predict: Predictor, process: Process, x: Tensor, grid: Tensor, streams: Streams) -> Iterator[Frame]:
    """Reveal along a Halton sequence: positions revealed together lie far apart, in images and in sequences.

    With one step per position the order is fixed, which makes no difference for a perfect denoiser.
    """
    rank = halton_ranks(tuple(x.shape[1:])).to(x.device).view(x.shape[1:])
    check_grid(grid)
    start = number(x == process.mask_id)
    for step, (now, then, keep) in enumerate(_steps(process, x, grid, start)):
        own, mask = streams.at(step), x == process.mask_id
        what = own.uniform(*x.shape[1:])
        wanted = (number(mask) - keep).clamp(min=0)
        chosen = highest((-rank.double()).expand(x.shape).masked_fill(~mask, -torch.inf), wanted)
        logits = predict(x, now, chosen)
        if len(logits):
            x = put(x, chosen, inverse_cdf(logits, what[chosen]))
        yield Frame(step + 1, then, x, chosen, predict.calls)


def halton_ranks(shape: tuple[int, ...]) -> Tensor:
    """The rank of each position of an image (or sequence) in the Halton order of bases 2 and 3; the channels of a
    pixel are consecutive.
    """
    plane, channels = shape[:2], math.prod(shape[2:])
    size = math.prod(plane)
    order: dict[int, None] = {}
    index = 1
    while len(order) < size:
        position = 0
        for base, extent in zip((2, 3), plane, strict=False):
            position = position * extent + int(_radical_inverse(index, base) * extent)
        order.setdefault(position)
        index += 1
    ranks = torch.empty(size, dtype=torch.int64)
    ranks[torch.tensor(list(order))] = torch.arange(size)
    return (ranks[:, None] * channels + torch.arange(channels)).flatten()


def _radical_inverse(index: int, base: int) -> float:
    """The digits of the index, reversed behind the radix point."""
    value, scale = 0.0, 1.0
    while index:
        index, digit = divmod(index, base)
        scale /= base
        value += digit * scale
    return value


def _by_score(
    predict: Predictor, process: Process, x: Tensor, grid: Tensor, streams: Streams, score: Score
) -> Iterator[Frame]:
    check_grid(grid)
    start = number(x == process.mask_id)
    for step, (now, then, keep) in enumerate(_steps(process, x, grid, start)):
        own, mask = streams.at(step), x == process.mask_id
        what, u = own.uniforms(2, *x.shape[1:])
        wanted = (number(mask) - keep).clamp(min=0)
        asked = mask & (wanted > 0).view(-1, *[1] * (x.ndim - 1))
        chosen = torch.zeros_like(mask)
        answer = predict.ask(x, now, asked)
        if len(answer):
            share = ((number(mask) - wanted) / start.clamp(min=1)).double()[asked.nonzero()[:, 0]]
            tokens, scores = _judged(answer, score, what[asked], u[asked], share)
            chosen = highest(spread(scores, asked, -torch.inf), wanted)
            x = put(x, chosen, tokens[chosen[asked]])
        yield Frame(step + 1, then, x, chosen, predict.calls)


def _judged(answer: Answer, score: Score, what: Tensor, u: Tensor, share: Tensor) -> tuple[Tensor, ...]:
    """A token for each position of the answer, and its score."""

    def judge(logits: Tensor, part: slice) -> tuple[Tensor, Tensor]:
        tokens = inverse_cdf(logits, what[part])
        return tokens, score(logits, tokens, u[part], share[part])

    return answer.each(judge)


def _steps(process: Process, x: Tensor, grid: Tensor, start: Tensor) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """For each step, its times and the number of positions per row that stay masked: ⌊start·(1−α_s)/(1−α_1)⌋."""
    share = process.schedule.mask_prob(grid) / process.schedule.mask_prob(grid[:1])
    for (t, s), left in zip(pairwise(grid.tolist()), share[1:].tolist(), strict=True):
        yield times(t, x), times(s, x), (start * left + 1e-9).floor().long()
