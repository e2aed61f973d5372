"""Samplers in continuous time: they draw the time at which the next position is revealed and need no grid."""

from collections.abc import Iterator

import torch
from torch import Tensor

from ..core import Process, Streams, exponents, inverse_cdf
from ..mistakes import require
from .frame import Frame, highest, number, put, spread
from .predict import Predictor


def first_hitting(
    predict: Predictor, process: Process, x: Tensor, grid: Tensor, streams: Streams, *, tokens_per_call: int = 1
) -> Iterator[Frame]:
    """One uniformly chosen position per network call, at its exact time (Zheng et al., 2024): no discretisation error.

    With n masked positions at time t, the next is revealed at 1−α_τ = (1−α_t)·u^(1/n). Several tokens per call are
    faster, but tokens of the same call do not see each other.
    """
    _check_tokens(tokens_per_call)
    schedule, step = process.schedule, 0
    log_masked = schedule.log_mask_prob(grid[:1].to(x.device)).expand(len(x))
    mask = x == process.mask_id
    while bool(mask.any()):
        own, left = streams.at(step), number(mask)
        u, (order, what) = own.uniform(tokens_per_call), own.uniforms(2, *x.shape[1:])
        count = left.clamp(max=tokens_per_call)
        hits = u.log() / (left[:, None] - torch.arange(tokens_per_call, device=x.device)).clamp(min=1)
        passed = torch.where(torch.arange(tokens_per_call, device=x.device) < count[:, None], hits, 0.0).cumsum(1)
        t = schedule.inverse_mask_prob((log_masked + passed[:, 0]).exp().clamp(max=1))  # time of the first one
        log_masked = log_masked + passed[:, -1]
        chosen = highest(order.masked_fill(~mask, -1.0), count)
        x = put(x, chosen, inverse_cdf(predict(x, t, chosen), what[chosen]))
        mask, step = x == process.mask_id, step + 1
        now = torch.where(number(mask) > 0, schedule.inverse_mask_prob(log_masked.exp().clamp(max=1)), 0.0)
        yield Frame(step, now, x, chosen, predict.calls)


def race(
    predict: Predictor, process: Process, x: Tensor, grid: Tensor, streams: Streams, *, tokens_per_call: int = 1
) -> Iterator[Frame]:
    """GenMD4 for networks that do not see the time: position n and token v are next with probability ∝ μ_nv w_v.

    Per unit of −log t, a masked position is revealed at rate r_n = Σ_v μ_nv w_v, constant until the next token appears,
    so exponential clocks race: the first of −log(u_n)/r_n wins. Tokens of the same call do not see each other.
    """
    _check_tokens(tokens_per_call)
    w = exponents(process.schedule).to(x.device)
    log_t, step = grid[:1].to(x.device).log().expand(len(x)), 0
    mask = x == process.mask_id
    while bool(mask.any()):
        clock, what = streams.at(step).uniforms(2, *x.shape[1:])
        logits = predict(x, log_t.exp(), mask).double()
        rate = (logits.softmax(-1) * w).sum(-1)
        hits = spread(clock[mask].log() / rate, mask, -torch.inf)
        chosen = highest(hits, number(mask).clamp(max=tokens_per_call))
        log_t = log_t + hits.masked_fill(~chosen, 0.0).flatten(1).amin(1)  # time of the last one
        x = put(x, chosen, inverse_cdf((logits + w.log())[chosen[mask]], what[chosen]))
        mask, step = x == process.mask_id, step + 1
        yield Frame(step, torch.where(number(mask) > 0, log_t.exp(), 0.0), x, chosen, predict.calls)


def _check_tokens(tokens_per_call: int) -> None:
    require(
        tokens_per_call >= 1,
        "tokens_per_call is not positive",
        got=tokens_per_call,
        allowed="an integer >= 1",
        do="use 1 for the exact distribution",
    )


def thinning(predict: Predictor, process: Process, x: Tensor, grid: Tensor, streams: Streams) -> Iterator[Frame]:
    """GenMD4 in continuous time: a masked position is revealed at rate Σ_v μ_v w_v ≤ w_max per unit of −log t.

    Propose one of n positions at rate n·w_max, call the network for it, accept with probability (μ·w)/w_max, and draw
    a token from μ·w.
    """
    w = exponents(process.schedule).to(x.device)
    largest, log_t, step = w.max(), grid[:1].to(x.device).log().expand(len(x)), 0
    mask = x == process.mask_id
    while bool(mask.any()):
        own, left = streams.at(step), number(mask)
        (u, accept), (order, what) = own.uniforms(2), own.uniforms(2, *x.shape[1:])
        log_t = torch.where(left > 0, log_t + u.log() / (left.clamp(min=1) * largest), log_t)
        proposed = highest(order.masked_fill(~mask, -1.0), left.clamp(max=1))
        logits = predict(x, log_t.exp(), proposed)
        rate = (logits.softmax(-1, dtype=torch.float64) * w).sum(-1)
        taken = accept[left > 0] < rate / largest
        chosen = torch.zeros_like(proposed).masked_scatter(proposed, taken)
        x = put(x, chosen, inverse_cdf((logits.double() + w.log())[taken], what[chosen]))
        mask, step = x == process.mask_id, step + 1
        yield Frame(step, torch.where(number(mask) > 0, log_t.exp(), 0.0), x, chosen, predict.calls)
