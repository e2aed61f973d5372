"""Estimators of the time integral: each draws (t, mask, weight), and `nelbo` computes the bound of the draw.

| estimator                              | t and mask                                       | weight            |
|----------------------------------------|--------------------------------------------------|-------------------|
| ContinuousTime(process, iid)           | t uniform, each token masked with 1−α_t          | −α'_t/(1−α_t)     |
| ContinuousTime(process, lattice)       | the same, times by the paper's Algorithm 1       | −α'_t/(1−α_t)     |
| LogSnr(process, spread)                | λ uniform on an interval, masked with σ(−λ)      | |interval|·σ(λ)   |
| Steps(process, grid, spread)           | a step of the grid, masked with 1−α_t            | T·unmask_prob     |
| ExactK(process, stratified / paired)   | k of N tokens masked, k uniform                  | N/k               |
| ExactK(process, ..., k_law=PowerK(½))  | k of N tokens masked, k ~ k^-½                   | 1/(k q(k))        |
| TokenExactK(process, ...)              | GenMD4: the last k tokens of its race            | 1/(q(k) W_M)      |
| Controlled(estimator, surprise)        | as the estimator, minus a unigram baseline       | unchanged         |

All are unbiased for the bound they estimate. Exact-k needs no end terms and has far less variance: use it
unless you need a specific other one. It is valid for every scalar schedule, and for networks that see the time.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar

import torch
from torch import Tensor

from ..mistakes import fail, require
from . import checks
from .grid import check_grid
from .k_law import KLaw, UniformK
from .objective import Draw, Nelbo, Positions, assemble, cross_entropy, prior, reconstruction
from .points import Spread, iid, paired, stratified
from .process import Process
from .schedule import Schedule
from .streams import Streams


class Estimator(ABC):
    """Draws how each row is masked and weighted."""

    process: Process
    exact: ClassVar[bool] = False
    """Whether a draw gives the likelihood itself rather than an estimate of a bound."""

    @abstractmethod
    def draw(self, x_0: Tensor, streams: Streams, *, valid: Tensor | None = None, strata: int | None = None) -> Draw:
        """One draw per row of x_0 [B, ...].

        valid: bool, shaped like x_0; false marks padding, which is never masked and never counted.
        strata: rows are spread together in groups of this many consecutive samples (default: all rows).
        """

    def coverage(self) -> float:
        """E[weight · 1{token masked}]: the part of the time integral that is covered (1 = all of it).

        Only for estimators of the scalar bound, whose losses are cross-entropies and nothing else.
        """
        name, allowed = type(self).__name__, "ContinuousTime, LogSnr, Steps or ExactK"
        fail("this estimator has no control variate", got=name, allowed=allowed, do="omit Controlled")

    def network_input(self, x_0: Tensor, draw: Draw) -> Tensor:
        """The input of the network: x_0 with the drawn positions masked."""
        return self.process.hide(x_0, draw.mask)

    def losses(self, logits: Tensor, positions: Positions, draw: Draw) -> Tensor:
        """The loss at each masked position [R], from its logits [R, V]; any subset can be computed alone."""
        del draw
        return cross_entropy(logits, positions)

    def nelbo(self, logits: Tensor, x_0: Tensor, draw: Draw) -> Nelbo:
        """The bound, from the logits at all masked positions [M, V]."""
        checks.tokens(x_0, self.process.vocab_size)
        return assemble(self.losses(logits, Positions.of(x_0, draw.mask), draw), draw)


@dataclass(frozen=True)
class ContinuousTime(Estimator):
    """The paper's estimator of Eq. (5): t by `spread`, independent masks, weight −α'_t/(1−α_t).

    Where uniform times would give an infinite variance, t = u^(1/p) with its density in the weight (`time_power`).
    """

    process: Process
    spread: Spread = iid

    def __post_init__(self) -> None:
        _check_scalar(self.process.schedule)

    def draw(self, x_0: Tensor, streams: Streams, *, valid: Tensor | None = None, strata: int | None = None) -> Draw:
        schedule, power = self.process.schedule, self.process.schedule.time_power
        u = spread_over(self.spread, x_0, streams, strata)
        t = (u ** (1 / power)).clamp(min=torch.finfo(u.dtype).tiny)  # a power may underflow
        weight = -schedule.loss_weight(t) * t ** (1 - power) / power
        return independent_masks(self.process, x_0, streams, valid, t=t, weight=weight, first=0.0, last=1.0)

    def coverage(self) -> float:
        return _alpha_drop(self.process.schedule, 0.0, 1.0)


@dataclass(frozen=True)
class LogSnr(Estimator):
    """The log-SNR form: ∫ σ(λ) E[Σ masked loss] dλ with λ uniform on [low, high] (Sec. 3).

    The interval is clipped to the range of the schedule; the end terms account for what lies outside it.
    """

    process: Process
    low: float = -12.0
    high: float = 12.0
    spread: Spread = iid

    def __post_init__(self) -> None:
        _check_scalar(self.process.schedule)
        low, high = self._interval
        require(
            low < high,
            "the log-SNR interval is empty",
            got=f"[{low:.3g}, {high:.3g}] within the schedule's range",
            allowed="low < high",
            do="widen the interval",
        )

    @cached_property
    def _interval(self) -> tuple[float, float]:
        ends = self.process.schedule.log_snr(torch.tensor([1.0, 0.0], dtype=torch.float64)).tolist()
        return max(self.low, ends[0]), min(self.high, ends[1])

    def draw(self, x_0: Tensor, streams: Streams, *, valid: Tensor | None = None, strata: int | None = None) -> Draw:
        low, high = self._interval
        log_snr = low + (high - low) * spread_over(self.spread, x_0, streams, strata)
        first, last = self._times
        return independent_masks(
            self.process,
            x_0,
            streams,
            valid,
            t=self.process.schedule.inverse_log_snr(log_snr),
            weight=(high - low) * torch.sigmoid(log_snr),
            first=first,
            last=last,
        )

    @cached_property
    def _times(self) -> tuple[float, float]:
        low, high = self._interval
        first, last = self.process.schedule.inverse_log_snr(torch.tensor([high, low], dtype=torch.float64)).tolist()
        return first, last

    def coverage(self) -> float:
        return _alpha_drop(self.process.schedule, *self._times)


@dataclass(frozen=True)
class Steps(Estimator):
    """The T-step NELBO on a grid: one step (s, t) of the grid per row, weight T·(α_s−α_t)/(1−α_t).

    With a grid that ends at 0 the denoiser takes the last step: the bound of a T-step sampler. Omit the 0
    (`uniform_grid(T)[:-1]`) for the paper's L_T, whose reconstruction term guesses uniformly at t(1).
    """

    process: Process
    grid: Tensor
    spread: Spread = stratified

    def __post_init__(self) -> None:
        _check_scalar(self.process.schedule)
        check_grid(self.grid)

    def draw(self, x_0: Tensor, streams: Streams, *, valid: Tensor | None = None, strata: int | None = None) -> Draw:
        t, s = steps_at(self.grid.to(x_0.device), spread_over(self.spread, x_0, streams, strata))
        weight = (len(self.grid) - 1) * self.process.schedule.unmask_prob(s, t)
        first, last = self.grid[-1].item(), self.grid[0].item()
        return independent_masks(self.process, x_0, streams, valid, t=t, weight=weight, first=first, last=last)

    def coverage(self) -> float:
        return _alpha_drop(self.process.schedule, self.grid[-1].item(), self.grid[0].item())


def steps_at(grid: Tensor, u: Tensor) -> tuple[Tensor, Tensor]:
    """Map uniforms to steps of a decreasing grid, all equally likely: (t, s) with s the next time below t."""
    step = (u * (len(grid) - 1)).long().clamp(max=len(grid) - 2)
    return grid[step], grid[step + 1]


@dataclass(frozen=True)
class ExactK(Estimator):
    """NELBO(x) = E_k E_{|M|=k} [(N/k) Σ_{n∈M} loss_n] for k uniform on 1..N: no end terms and no factor 1/t.

    Integrating the binomial distribution of |M| over the mask probability λ leaves C(N,k)·B(k, N−k+1) = 1/k for each
    size k, for any schedule. Given k, λ follows Beta(k, N−k+1), the distribution of the k-th smallest of N uniforms.
    Masking the positions of the k smallest uniforms and showing the network t = α⁻¹(1−λ) with λ the k-th of them is
    therefore exact for time-conditioned networks too.
    """

    process: Process
    spread: Spread = stratified
    k_law: KLaw = field(default_factory=UniformK)

    def __post_init__(self) -> None:
        _check_scalar(self.process.schedule)

    def draw(self, x_0: Tensor, streams: Streams, *, valid: Tensor | None = None, strata: int | None = None) -> Draw:
        k, weight = self.draw_k(x_0, streams, valid=valid, strata=strata)
        return replace(self.draw_given_k(x_0, k, weight, streams, valid), count=self._count(x_0, streams, valid))

    def draw_k(
        self, x_0: Tensor, streams: Streams, *, valid: Tensor | None = None, strata: int | None = None
    ) -> tuple[Tensor, Tensor]:
        """The number of masked tokens in each row [B], and the weight 1/(k q(k)) [B]."""
        checks.tokens(x_0, self.process.vocab_size)
        n, most = count_valid(x_0, valid), max(1, x_0.shape[1:].numel())
        k = self.k_law.quantile(spread_over(self.spread, x_0, streams, strata), n.clamp(min=1), most)
        weight = torch.where(n > 0, 1 / (k * self.k_law.prob(k, n.clamp(min=1), most)), 0.0)
        return k.minimum(n), weight

    def _count(self, x_0: Tensor, streams: Streams, valid: Tensor | None) -> int | None:
        """Pairs mask k and N+1−k tokens, always N+1 together, so that a batch has a constant shape."""
        pairs = self.spread is paired and self.k_law.symmetric and valid is None and checks.in_pairs(streams.index)
        return len(x_0) // 2 * (x_0[0].numel() + 1) if pairs else None

    def draw_given_k(
        self, x_0: Tensor, k: Tensor, weight: Tensor, streams: Streams, valid: Tensor | None = None
    ) -> Draw:
        """Mask exactly k [B] of each row's valid tokens, 0 ≤ k ≤ N."""
        checks.one_each(len(streams), x_0, "streams")
        checks.k_range(k, count_valid(x_0, valid))
        mask, last = hide_least(streams.uniform(*x_0.shape[1:]), k, valid)
        zero = torch.zeros_like(weight)
        return Draw(self.process.schedule.inverse_mask_prob(last.clamp(max=1)), mask, weight, zero, zero, zero)

    def coverage(self) -> float:
        return 1.0


@dataclass(frozen=True)
class EstimatorWrapper(Estimator):
    """A modified estimator: everything that is not overridden is delegated to the wrapped one."""

    estimator: Estimator

    @property
    def process(self) -> Process:  # type: ignore[override]
        return self.estimator.process

    @property
    def exact(self) -> bool:  # type: ignore[override]
        return self.estimator.exact

    def coverage(self) -> float:
        return self.estimator.coverage()

    def draw(self, x_0: Tensor, streams: Streams, *, valid: Tensor | None = None, strata: int | None = None) -> Draw:
        return self.estimator.draw(x_0, streams, valid=valid, strata=strata)

    def network_input(self, x_0: Tensor, draw: Draw) -> Tensor:
        return self.estimator.network_input(x_0, draw)

    def losses(self, logits: Tensor, positions: Positions, draw: Draw) -> Tensor:
        return self.estimator.losses(logits, positions, draw)


@dataclass(frozen=True)
class Controlled(EstimatorWrapper):
    """Subtract a baseline with known expectation: β·(weight·Σ_{n∈M} b_n − coverage·Σ_n b_n).

    b_n = surprise[x_n], for example −log unigram(x_n) with β = 0.6, or better the denoiser's own mean loss on
    each token (`fit_surprise`) with β = 1. Unbiased for any b and β that do not depend on the draws.
    """

    surprise: Tensor
    beta: float = 0.6

    def __post_init__(self) -> None:
        require(
            self.surprise.shape == (self.process.vocab_size,),
            "the baseline has the wrong shape",
            got=tuple(self.surprise.shape),
            allowed=f"one number per token, shape ({self.process.vocab_size},)",
            do="pass −log of the token frequencies",
        )

    def draw(self, x_0: Tensor, streams: Streams, *, valid: Tensor | None = None, strata: int | None = None) -> Draw:
        draw = super().draw(x_0, streams, valid=valid, strata=strata)
        surprise = self.surprise.to(x_0.device).double()[x_0.long()]
        everywhere = (surprise if valid is None else surprise * valid).flatten(1).sum(1)
        masked = (surprise * draw.mask).flatten(1).sum(1)
        control = self.beta * (self.estimator.coverage() * everywhere - draw.weight * masked)
        return replace(draw, control=draw.control + control)


def spread_over(spread: Spread, x_0: Tensor, streams: Streams, strata: int | None) -> Tensor:
    """One point per row, spread over groups of `strata` rows (default: all rows)."""
    checks.one_each(len(streams), x_0, "streams")
    require(
        strata is None or strata >= 1,
        "the size of a group is not positive",
        got=strata,
        allowed="an integer >= 1",
        do="omit it to spread over the whole batch",
    )
    return spread(streams, strata or max(len(x_0), 1))


def hide_least(keys: Tensor, k: Tensor, valid: Tensor | None) -> tuple[Tensor, Tensor]:
    """A mask of the k smallest keys in each row, and the k-th smallest key [B]; infinity for a row without tokens."""
    if valid is not None:
        keys = torch.where(valid, keys, torch.inf)  # padding sorts last and is never reached
    ordered, order = keys.flatten(1).sort(dim=1)
    places = torch.arange(order.shape[1], device=keys.device)
    rank = torch.empty_like(order).scatter_(1, order, places.expand_as(order))
    return (rank < k[:, None]).view(keys.shape), ordered.gather(1, (k - 1).clamp(min=0)[:, None])[:, 0]


def count_valid(x_0: Tensor, valid: Tensor | None) -> Tensor:
    """N: the number of valid tokens in each sequence [B]."""
    if valid is None:
        return torch.full((len(x_0),), math.prod(x_0.shape[1:]), device=x_0.device)
    checks.validity(valid, x_0)
    return valid.flatten(1).sum(1)


def independent_masks(
    process: Process,
    x_0: Tensor,
    streams: Streams,
    valid: Tensor | None,
    *,
    t: Tensor,
    weight: Tensor,
    first: float,
    last: float,
) -> Draw:
    """Bernoulli masks at given times, with the end terms of the covered interval [first, last]."""
    return Draw(
        t=t,
        mask=process.draw_mask(x_0, t, streams, valid),
        weight=weight,
        control=torch.zeros_like(weight),
        reconstruction=reconstruction(process, x_0, first, valid),
        prior=prior(process, x_0, last, valid),
    )


def _alpha_drop(schedule: Schedule, first: float, last: float) -> float:
    alpha = schedule.alpha(torch.tensor([first, last], dtype=torch.float64))
    return (alpha[0] - alpha[1]).item()


def _check_scalar(schedule: Schedule) -> None:
    require(
        not schedule.per_token,
        "this estimator needs one schedule for all tokens",
        got=repr(schedule),
        allowed="a scalar schedule",
        do="use TokenTime or TokenSteps for a schedule per token",
    )
