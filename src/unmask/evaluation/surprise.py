"""How surprising each token of a text is to a model: its share of the bound."""

import torch
from torch import Tensor

from ..core import Estimator, Rows, Streams
from ..sampling import Predictor


@torch.no_grad()
def surprise(
    predict: Predictor, x_0: Tensor, estimator: Estimator, *, draws: int = 16, repeats: int = 4, seed: int = 0
) -> tuple[Tensor, Tensor]:
    """Nats of each position, like x_0 [B, ...], and their standard errors; a row sums to its NELBO.

    E[weight · 1{n masked} · loss_n]: what the position costs when it must be guessed from some of the others, averaged
    over how many are hidden.
    """
    rows = x_0.repeat_interleave(draws, 0)
    groups = []
    for repeat in range(repeats):
        draw = estimator.draw(rows, Streams(seed, len(rows), repeat, x_0.device), strata=draws)
        where = Rows.of(rows, draw.mask)
        logits = predict(estimator.shown(rows, draw), draw.t, draw.mask, _samples(x_0, draws))
        losses = estimator.losses(logits, where, draw).double() * draw.weight.double()[where.sequence]
        laid_out = torch.zeros(rows.numel(), dtype=torch.float64, device=x_0.device)
        laid_out[where.index] = losses
        groups.append(laid_out.view(len(x_0), draws, *x_0.shape[1:]).mean(1))
    found = torch.stack(groups)
    return found.mean(0), found.std(0) / repeats**0.5


def _samples(x_0: Tensor, draws: int) -> Tensor:
    return torch.arange(len(x_0), device=x_0.device).repeat_interleave(draws)
