"""A bound with its error bar: the NELBO of given sequences under any denoiser and any estimator."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..mistakes import require
from .estimator import Estimator
from .objective import Nelbo, Objective, cross_entropy, nelbo
from .process import Denoiser
from .streams import Streams


@dataclass(frozen=True)
class Bound:
    """NELBO of each sequence in nats, with the standard error of its Monte-Carlo mean."""

    nelbo: Nelbo
    standard_error: Tensor

    @property
    def mean(self) -> Tensor:
        return self.nelbo.total


@torch.no_grad()
def estimate_nelbo(
    denoiser: Denoiser,
    x_0: Tensor,
    estimator: Estimator,
    *,
    draws: int = 16,
    repeats: int = 8,
    seed: int = 0,
    valid: Tensor | None = None,
    condition: Any = None,
    objective: Objective = nelbo,
) -> Bound:
    """Estimate the NELBO of each sequence x_0 [B, ...] from `repeats` independent groups of `draws` evaluations.

    The draws of a group are spread over the time axis together, so only whole groups are independent: the
    standard error is that of the mean over groups. Takes B·draws·repeats evaluations of the denoiser.
    """
    require(
        draws >= 1 and repeats >= 2,
        "too few evaluations for an error bar",
        got=f"draws={draws}, repeats={repeats}",
        allowed="draws >= 1 and repeats >= 2",
        do="raise repeats",
    )
    rows = x_0.repeat_interleave(draws, 0)
    valid_rows = None if valid is None else valid.repeat_interleave(draws, 0)
    groups = []
    for repeat in range(repeats):
        streams = Streams(seed, torch.arange(len(rows), device=x_0.device), step=repeat)
        draw = estimator.draw(rows, streams, valid=valid_rows, strata=draws)
        logits = denoiser(estimator.process.hide(rows, draw.mask), draw.t, condition)
        parts = objective(logits[draw.mask], rows, draw)
        groups.append([p.view(-1, draws).mean(1) for p in (parts.diffusion, parts.reconstruction, parts.prior)])
    diffusion, recon, prior = (torch.stack(p) for p in zip(*groups, strict=True))
    return Bound(
        Nelbo(diffusion.mean(0), recon.mean(0), prior.mean(0)),
        (diffusion + recon + prior).std(0) / repeats**0.5,
    )


@torch.no_grad()
def fit_surprise(
    denoiser: Denoiser, x_0: Tensor, estimator: Estimator, *, draws: int = 16, seed: int = 0, condition: Any = None
) -> Tensor:
    """The denoiser's mean loss on each token, [V]: the best baseline of one number per token for `Controlled`.

    Fit it on other sequences (or another seed) than it is used on, or the estimate is no longer unbiased.
    Tokens that never occur get the mean over those that do.
    """
    rows = x_0.repeat_interleave(draws, 0)
    draw = estimator.draw(rows, Streams(seed, torch.arange(len(rows), device=x_0.device)).fork("pilot"), strata=draws)
    logits = denoiser(estimator.process.hide(rows, draw.mask), draw.t, condition)[draw.mask]
    losses, tokens = cross_entropy(logits, rows, draw.mask).double(), rows[draw.mask].long()
    total = losses.new_zeros(estimator.process.vocab_size).index_add(0, tokens, losses)
    count = torch.bincount(tokens, minlength=estimator.process.vocab_size)
    return torch.where(count > 0, total / count, losses.mean())
