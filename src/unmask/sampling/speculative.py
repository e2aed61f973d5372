"""Exact speculative decoding: draft several tokens at once, check them in one batch, keep those the model accepts."""

from collections.abc import Iterator

import torch
from torch import Tensor

from ..core import Process, Streams, inverse_cdf
from ..mistakes import require
from .frame import Frame, highest, number
from .predict import Predictor


def speculative(
    predict: Predictor, process: Process, x: Tensor, grid: Tensor, streams: Streams, *, drafts: int = 4
) -> Iterator[Frame]:
    """The distribution of one token at a time in random order (`first_hitting`), with fewer sequential calls.

    Draft K positions in random order from their marginals q_j in the current state, then evaluate, in one batch, the
    K−1 states in which the first 1..K−1 drafts are in place. Accept draft j with probability min(1, p_j/q_j); at the
    first rejected draft, draw from (p_j − q_j)⁺ and stop. The first draft is always accepted.
    """
    del grid
    require(drafts >= 1, "the number of drafts is not positive", got=drafts, allowed=">= 1", do="use 4")
    mask, step, total = x == process.mask_id, 0, number(x == process.mask_id).clamp(min=1)
    while bool(mask.any()):
        own, left = streams.at(step), number(mask)
        order, accept = own.uniform(*x.shape[1:]), own.uniform(drafts)
        what, again = own.uniform(drafts), own.uniform(drafts)
        t = process.schedule.inverse_mask_prob((left / total).double())
        count = left.clamp(max=drafts)
        chosen = highest(order.masked_fill(~mask, -1.0), count)
        places = order.masked_fill(~chosen, -1.0).flatten(1).argsort(dim=1, descending=True)[:, :drafts]  # in order
        row, draft = (torch.arange(places.shape[1], device=x.device) < count[:, None]).nonzero().unbind(1)
        logits = _in_order(predict(x, t, chosen), chosen, row, places[row, draft])
        tokens = inverse_cdf(logits, what[row, draft])
        kept, tokens = _checked(
            predict, x, t, (row, draft, places[row, draft]), logits, tokens, accept[row, draft], again[row, draft]
        )
        revealed = torch.zeros_like(mask).flatten(1)
        revealed[row[kept], places[row, draft][kept]] = True
        x = x.flatten(1).index_put((row[kept], places[row, draft][kept]), tokens[kept].to(x.dtype)).view_as(x)
        mask, step = x == process.mask_id, step + 1
        after = process.schedule.inverse_mask_prob((number(mask) / total).double())
        yield Frame(step, after, x, revealed.view_as(mask), predict.calls)


def _in_order(logits: Tensor, chosen: Tensor, row: Tensor, place: Tensor) -> Tensor:
    """Logits of the chosen positions, ordered by (row, draft) instead of by position."""
    number_of = (chosen.flatten().cumsum(0) - 1).view(len(chosen), -1)
    return logits[number_of[row, place]]


def _checked(
    predict: Predictor,
    x: Tensor,
    t: Tensor,
    drafted: tuple[Tensor, Tensor, Tensor],
    logits: Tensor,
    tokens: Tensor,
    accept: Tensor,
    again: Tensor,
) -> tuple[Tensor, Tensor]:
    """Which drafts are kept, and the tokens, where the first rejected one is redrawn."""
    row, draft, place = drafted
    late = draft > 0
    if not bool(late.any()):
        return torch.ones_like(late), tokens
    states = _states(x, row, draft, place, tokens)[late]
    asked = torch.zeros_like(states, dtype=torch.bool).scatter(1, place[late][:, None], True)
    shape = (-1, *x.shape[1:])
    found = predict(states.view(shape), t[row[late]], asked.view(shape), samples=row[late])
    q, p = logits[late].double().softmax(-1), found.double().softmax(-1)
    drawn = tokens[late][:, None]
    refused = torch.zeros_like(late)
    refused[late] = accept[late] * q.gather(1, drawn)[:, 0] >= p.gather(1, drawn)[:, 0]
    first = torch.full((len(x),), len(row), device=x.device).scatter_reduce(
        0, row, torch.where(refused, draft, len(row)), "amin"
    )[row]
    tokens = tokens.clone()
    anew = late & (draft == first)
    rest = (p - q).clamp(min=0)[anew[late]]
    if len(rest):
        tokens[anew] = inverse_cdf(rest.log(), again[anew])
    return draft <= first, tokens


def _states(x: Tensor, row: Tensor, draft: Tensor, place: Tensor, tokens: Tensor) -> Tensor:
    """The state [R, N] in which each draft is checked: all earlier drafts of its row are in place."""
    table = torch.zeros(2, len(x), int(draft.max()) + 1, dtype=torch.int64, device=x.device)
    table[:, row, draft] = torch.stack([place, tokens])
    states = x.flatten(1)[row]
    for earlier in range(table.shape[2] - 1):
        after = (draft > earlier).nonzero()[:, 0]
        where, what = table[:, row[after], earlier]
        states[after, where] = what.to(states.dtype)
    return states
