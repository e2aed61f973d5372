"""Samplers that step along a grid of times and reveal each masked position with some probability."""

from collections.abc import Callable, Iterator
from itertools import pairwise

import torch
from torch import Tensor

from ..core import Process, Streams, inverse_cdf, legacy_joint_gumbel
from ..core.grid import check_grid
from .frame import Frame, put, times
from .predict import Answer, Predictor

Chance = Callable[[Tensor, Tensor], Tensor]
"""(s, t) [B] → the probability that a masked position is revealed between t and s [B]."""


def ancestral(predict: Predictor, process: Process, x: Tensor, grid: Tensor, streams: Streams) -> Iterator[Frame]:
    """Alg. 2, exactly: draw which positions are revealed, then their tokens. No network call if there are none.

    Each masked position is revealed with probability (α_s−α_t)/(1−α_t); with a schedule per token (GenMD4) the
    probability depends on the token, and the network is called for all masked positions.
    """
    if process.schedule.per_token:
        return _ancestral_per_token(predict, process, x, grid, streams)
    return _by_chance(predict, process, x, grid, streams, process.schedule.unmask_prob)


def euler(predict: Predictor, process: Process, x: Tensor, grid: Tensor, streams: Streams) -> Iterator[Frame]:
    """Euler steps of the reverse Markov chain: probability min(1, (t−s)·rate), rate = −α'_t/(1−α_t)."""

    def chance(s: Tensor, t: Tensor) -> Tensor:
        return ((t - s) * rate(process, s, t)).clamp(max=1)

    return _by_chance(predict, process, x, grid, streams, chance)


def tau_leaping(predict: Predictor, process: Process, x: Tensor, grid: Tensor, streams: Streams) -> Iterator[Frame]:
    """Rates held constant over a step: probability 1 − exp(−(t−s)·rate)."""

    def chance(s: Tensor, t: Tensor) -> Tensor:
        return -torch.expm1(-(t - s) * rate(process, s, t))

    return _by_chance(predict, process, x, grid, streams, chance)


def rate(process: Process, s: Tensor, t: Tensor) -> Tensor:
    """The unmasking rate −α'_t/(1−α_t); the rate at the middle of the step where that is infinite."""
    first, amid = (-process.schedule.loss_weight(time) for time in (t, (s + t) / 2))
    return torch.where(first.isfinite(), first, amid)


def two_step(predict: Predictor, process: Process, x: Tensor, grid: Tensor, streams: Streams) -> Iterator[Frame]:
    """The paper's second form: draw a whole x_0 from μ, then x_s from q(x_s | x_t, x_0).

    The distribution is that of `ancestral`, but every step draws a token for every masked position.
    """
    return _everywhere(predict, process, x, grid, streams, _two_step)


def joint(predict: Predictor, process: Process, x: Tensor, grid: Tensor, streams: Streams) -> Iterator[Frame]:
    """The one-step form from the literature, as published: one float32 Gumbel-max over V tokens and the mask.

    It cannot draw tokens rarer than about 2^-24·(T−1) and is kept to reproduce old results.
    """
    return _everywhere(predict, process, x, grid, streams, _joint)


def _by_chance(
    predict: Predictor, process: Process, x: Tensor, grid: Tensor, streams: Streams, chance: Chance
) -> Iterator[Frame]:
    check_grid(grid)
    for step, (t, s) in enumerate(pairwise(grid.tolist())):
        now, then, own = times(t, x), times(s, x), streams.at(step)
        where, what = own.uniforms(2, *x.shape[1:])
        chances = chance(then, now).view(-1, *[1] * (x.ndim - 1))
        chosen = (x == process.mask_id) & (where < chances)
        x = put(x, chosen, _tokens(predict, x, now, chosen, what))
        yield Frame(step + 1, then, x, chosen, predict.calls)


def block_wise(predict: Predictor, process: Process, x: Tensor, grid: Tensor, streams: Streams) -> Iterator[Frame]:
    """One block after another: ancestral steps along the whole grid finish each block before the next."""
    check_grid(grid)
    steps, taken = len(grid) - 1, 0
    number = torch.arange(x.shape[1], device=x.device) // max(1, predict.block)
    for block in range(int(number[-1]) + 1):
        for step, (t, s) in enumerate(pairwise(grid.tolist())):
            now, then, own = times(t, x), times(s, x), streams.at(block * steps + step)
            where, what = own.uniforms(2, x.shape[1])
            chances = process.schedule.unmask_prob(then, now)[:, None]
            chosen = (x == process.mask_id) & (number == block) & (where < chances)
            x, taken = put(x, chosen, _tokens(predict, x, now, chosen, what)), taken + 1
            yield Frame(taken, then, x, chosen, predict.calls)
        left = (x == process.mask_id) & (number == block)
        if bool(left.any()):
            x, taken = draw_remaining(predict, x, then, left, streams), taken + 1
            yield Frame(taken, torch.zeros_like(then), x, left, predict.calls)


def draw_remaining(predict: Predictor, x: Tensor, t: Tensor, left: Tensor, streams: Streams) -> Tensor:
    """x with the positions `left` filled in one step."""
    return put(x, left, _tokens(predict, x, t, left, streams.fork("rest").uniform(*x.shape[1:])))


def _tokens(predict: Predictor, x: Tensor, t: Tensor, chosen: Tensor, what: Tensor) -> Tensor:
    """Draw a token for each chosen position [M] from one uniform each."""
    logits = predict(x, t, chosen)
    return inverse_cdf(logits, what[chosen]) if len(logits) else x.new_zeros(0)


def _ancestral_per_token(
    predict: Predictor, process: Process, x: Tensor, grid: Tensor, streams: Streams
) -> Iterator[Frame]:
    check_grid(grid)
    for step, (t, s) in enumerate(pairwise(grid.tolist())):
        now, then, mask = times(t, x), times(s, x), x == process.mask_id
        before = x
        if mask.any():
            x = process.draw_reverse(x, predict(x, now, mask), then, now, streams.at(step))
        yield Frame(step + 1, then, x, x != before, predict.calls)


Draws = Callable[[Process, Tensor, Answer, Tensor, Streams], tuple[Tensor, Tensor]]
"""(process, masked positions, network's answer, probability, streams) → which are revealed; tokens for all."""


def _everywhere(
    predict: Predictor, process: Process, x: Tensor, grid: Tensor, streams: Streams, draws: Draws
) -> Iterator[Frame]:
    check_grid(grid)
    for step, (t, s) in enumerate(pairwise(grid.tolist())):
        now, then, mask = times(t, x), times(s, x), x == process.mask_id
        chosen = torch.zeros_like(mask)
        if mask.any():
            chance = process.unmask_prob(x, then, now)[mask]
            revealed, tokens = draws(process, mask, predict.ask(x, now, mask), chance, streams.at(step))
            chosen = chosen.masked_scatter(mask, revealed)
            x = put(x, chosen, tokens[revealed])
        yield Frame(step + 1, then, x, chosen, predict.calls)


def _two_step(
    process: Process, mask: Tensor, answer: Answer, chance: Tensor, streams: Streams
) -> tuple[Tensor, Tensor]:
    del process
    where, what = streams.uniform(*mask.shape[1:])[mask], streams.uniform(*mask.shape[1:])[mask]
    (tokens,) = answer.each(lambda logits, part: (inverse_cdf(logits, what[part]),))
    return where < chance, tokens


def _joint(process: Process, mask: Tensor, answer: Answer, chance: Tensor, streams: Streams) -> tuple[Tensor, Tensor]:
    u = streams.uniform(*mask.shape[1:], process.vocab_size + 1)[mask]
    tokens = legacy_joint_gumbel(answer.logits(), chance, ((u * 2.0**24).floor() * 2.0**-24).float())
    return tokens < process.vocab_size, tokens
