"""A bound with its standard error: the NELBO of given sequences under any denoiser and any estimator."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from ..mistakes import require
from . import checks
from .estimator import Estimator
from .objective import Draw, Nelbo, Positions, cross_entropy
from .process import Denoiser
from .streams import Streams


@dataclass(frozen=True)
class Bound:
    """The NELBO of each sequence in nats, with the standard error of its Monte Carlo mean."""

    nelbo: Nelbo
    standard_error: Tensor

    @property
    def mean(self) -> Tensor:
        return self.nelbo.total


class NelboFn(Protocol):
    """Computes the bound of each row from a draw: (denoiser, x_0, draw, estimator, condition) → Nelbo."""

    def __call__(self, denoiser: Any, x_0: Tensor, draw: Draw, estimator: Estimator, condition: Any, /) -> Nelbo: ...


def nelbo_at_once(denoiser: Denoiser, x_0: Tensor, draw: Draw, estimator: Estimator, condition: Any, /) -> Nelbo:
    """Compute the bound from logits at every position."""
    logits = denoiser(estimator.network_input(x_0, draw), draw.t, condition)
    return estimator.nelbo(logits[draw.mask], x_0, draw)


@torch.no_grad()
def estimate_nelbo(
    denoiser: Denoiser,
    x_0: Tensor,
    estimator: Estimator,
    *,
    draws: int = 16,
    repeats: int = 8,
    seed: int = 0,
    index: Tensor | None = None,
    valid: Tensor | None = None,
    condition: Any = None,
    nelbo_fn: NelboFn = nelbo_at_once,
) -> Bound:
    """Estimate the NELBO of each sequence x_0 [B, ...] from `repeats` independent groups of `draws` evaluations.

    `index` numbers the sequences within their data set (default 0..B−1). It determines their random numbers, so that
    a data set evaluated in batches has independent errors, and the same errors however it is split. The draws of a
    group are spread over the time axis together, so only whole groups are independent: the standard error is that
    of the mean over groups. Takes B·draws·repeats evaluations of the denoiser; `nelbo_fn` defines one evaluation,
    for denoisers that do not need all logits.
    """
    require(
        draws >= 1 and repeats >= 2,
        "too few evaluations for a standard error",
        got=f"draws={draws}, repeats={repeats}",
        allowed="draws >= 1 and repeats >= 2",
        do="raise repeats",
    )
    rows, valid_rows, condition = (_repeated(x, len(x_0), draws) for x in (x_0, valid, condition))
    numbers = _row_numbers(x_0, index, draws)
    groups = []
    for repeat in range(repeats):
        draw = estimator.draw(rows, Streams(seed, numbers, step=repeat), valid=valid_rows, strata=draws)
        parts = nelbo_fn(denoiser, rows, draw, estimator, condition)
        groups.append([p.view(-1, draws).mean(1) for p in (parts.diffusion, parts.reconstruction, parts.prior)])
    diffusion, recon, prior = (torch.stack(p) for p in zip(*groups, strict=True))
    return Bound(
        Nelbo(diffusion.mean(0), recon.mean(0), prior.mean(0)),
        (diffusion + recon + prior).std(0) / repeats**0.5,
    )


def _repeated(x: Any, batch: int, times: int) -> Any:
    """Repeat the entry of each sequence `times` times."""
    return _mapped(x, batch, lambda entries: entries.repeat_interleave(times, 0))


def _mapped(x: Any, batch: int, function: Callable[[Tensor], Tensor]) -> Any:
    """Apply a function to every tensor with one entry per sequence, also within tuples, lists and dicts."""
    if isinstance(x, Tensor) and x.ndim and len(x) == batch:
        return function(x)
    if isinstance(x, dict):
        return {key: _mapped(value, batch, function) for key, value in x.items()}
    if isinstance(x, tuple | list):
        return type(x)(_mapped(value, batch, function) for value in x)
    return x


def _row_numbers(x_0: Tensor, index: Tensor | None, draws: int) -> Tensor:
    """The draws of sequence i are samples i·draws .. i·draws + draws − 1."""
    numbers = torch.arange(len(x_0), device=x_0.device) if index is None else index.long()
    checks.one_each(len(numbers), x_0, "sequence numbers")
    return (numbers[:, None] * draws + torch.arange(draws, device=x_0.device)).flatten()


@torch.no_grad()
def fit_surprise(
    denoiser: Denoiser,
    x_0: Tensor,
    estimator: Estimator,
    *,
    draws: int = 16,
    seed: int = 0,
    valid: Tensor | None = None,
    condition: Any = None,
    chunk: int = 64,
) -> Tensor:
    """The denoiser's mean loss on each token, [V]: a baseline for `Controlled`, to be used with β = 1.

    Fit it on different sequences (or with a different seed) from those it is used on, or the estimate becomes biased.
    Tokens that never occur get the mean over those that do. chunk: sequences per pass, to limit memory.
    """
    vocab_size, numbers = estimator.process.vocab_size, torch.arange(len(x_0), device=x_0.device)
    total, count = (torch.zeros(vocab_size, dtype=torch.float64, device=x_0.device) for _ in range(2))
    for start in range(0, len(x_0), chunk):
        own, *others = _mapped((x_0, valid, condition), len(x_0), lambda x, at=start: x[at : at + chunk])  # type: ignore[misc]
        rows, valid_rows, given = _repeated((own, *others), len(own), draws)
        streams = Streams(seed, _row_numbers(own, numbers[start : start + chunk], draws)).fork("pilot")
        draw = estimator.draw(rows, streams, valid=valid_rows, strata=draws)
        logits = denoiser(estimator.network_input(rows, draw), draw.t, given)[draw.mask]
        tokens = rows[draw.mask].long()
        total.index_add_(0, tokens, cross_entropy(logits, Positions.of(rows, draw.mask)).double())
        count += torch.bincount(tokens, minlength=vocab_size)
    return torch.where(count > 0, total / count, total.sum() / count.sum())
