"""How surprising each token of a text is to a model: its share of the bound."""

from dataclasses import dataclass

import torch
from torch import Tensor

from ..core import Estimator, Positions, Streams
from ..mistakes import require
from ..sampling import Predictor


@dataclass(frozen=True)
class Surprise:
    """The share of every position in the bound of its row, in nats."""

    nats: Tensor
    """In the shape of the tokens [B, ...]; a row sums to its NELBO."""
    error: Tensor
    """Standard errors [B, ...]."""
    total_error: Tensor
    """Standard errors of the sums [B]: positions that share masks are not independent."""


@torch.no_grad()
def surprise(
    predict: Predictor,
    x_0: Tensor,
    estimator: Estimator,
    *,
    valid: Tensor | None = None,
    draws: int = 16,
    repeats: int = 4,
    seed: int = 0,
) -> Surprise:
    """The cost of each position of x_0 [B, ...] in nats; what is not `valid` is never hidden and costs nothing.

    E[weight · 1{n masked} · loss_n]: the cost of a position when it is predicted from some of the others, averaged over
    how many are hidden.
    """
    for name, value, least in (("draws", draws, 1), ("repeats", repeats, 2)):
        require(value >= least, f"{name} is too small", got=value, allowed=f">= {least}", do="raise it")
    rows = x_0.repeat_interleave(draws, 0)
    counted = None if valid is None else valid.repeat_interleave(draws, 0)
    groups = []
    for repeat in range(repeats):
        draw = estimator.draw(rows, Streams(seed, len(rows), repeat, x_0.device), valid=counted, strata=draws)
        where = Positions.of(rows, draw.mask)
        logits = predict(estimator.network_input(rows, draw), draw.t, draw.mask, _samples(x_0, draws))
        losses = estimator.losses(logits, where, draw).double() * draw.weight.double()[where.sequence]
        laid_out = torch.zeros(rows.numel(), dtype=torch.float64, device=x_0.device)
        laid_out[where.index] = losses
        groups.append(laid_out.view(len(x_0), draws, *x_0.shape[1:]).mean(1))
    found = torch.stack(groups)
    error, total_error = (values.std(0) / repeats**0.5 for values in (found, found.flatten(2).sum(2)))
    return Surprise(found.mean(0), error, total_error)


def _samples(x_0: Tensor, draws: int) -> Tensor:
    return torch.arange(len(x_0), device=x_0.device).repeat_interleave(draws)
