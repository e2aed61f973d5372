"""GenMD4: masking schedules that depend on the token, and how to learn them (Sec. 6, App. I).

With rates r_v(t) = −α'_{t,v}/(1−α_{t,v}) (w_v/t for the polynomial schedule) a masked position costs

    r_x·(−log μ_x) + Σ_v (r_v − r_x) μ_v   ≥ 0,

Eq. (12) rearranged so that equal rates give MD4's weighted cross-entropy to the last bit. The distribution of
the masks depends on w, so its gradient needs the two-sample leave-one-out estimator `rloo`.

For this bound to be tight the denoiser must see t: given that a token is masked at t, its posterior is
∝ p(v | context)·(1−α_{t,v}).
"""

from abc import abstractmethod
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ..mistakes import fail
from . import checks
from .estimator import Estimator, independent_masks, spread_over, steps_at
from .grid import check_grid
from .numeric import log_mean_exp, softmax_dtype
from .objective import Draw, Nelbo, Positions, TokenDraw, assemble, cross_entropy
from .points import Spread, lattice, stratified
from .process import Process
from .schedule import TokenPolynomial
from .streams import Streams


class TokenEstimator(Estimator):
    """Draws for GenMD4: each token is masked by its own α; the objective contributes the rates."""

    def draw_pair(
        self, x_0: Tensor, streams: Streams, *, valid: Tensor | None = None, strata: int | None = None
    ) -> tuple[TokenDraw, TokenDraw]:
        """Two draws at the same times with independent masks, for `rloo`."""
        first = self.draw(x_0, streams, valid=valid, strata=strata)
        return first, replace(first, mask=self.process.draw_mask(x_0, first.t, streams, valid))

    @abstractmethod
    def draw(
        self, x_0: Tensor, streams: Streams, *, valid: Tensor | None = None, strata: int | None = None
    ) -> TokenDraw: ...

    def _token_draw(
        self, x_0: Tensor, streams: Streams, valid: Tensor | None, t: Tensor, weight: Tensor, first: float, last: float
    ) -> TokenDraw:
        draw = independent_masks(self.process, x_0, streams, valid, t=t, weight=weight, first=first, last=last)
        return TokenDraw(**vars(draw))


@dataclass(frozen=True)
class TokenTime(TokenEstimator):
    """Times for GenMD4's continuous NELBO: t = u^(1/power), weight t^(1−power)/power.

    power 1 is the paper's uniform time. With one mask per time the second moment of the estimate behaves like
    ∫ t^(w−power−1) dt / power at t → 0: it is infinite (though the estimate is still unbiased) unless power is below
    the smallest w, and minimal at half of that. The default is therefore half of the smallest w, at most ½.
    """

    process: Process
    spread: Spread = lattice
    power: float | None = None

    def __post_init__(self) -> None:
        if self.power is not None:
            checks.positive(self.power, "the power of the time")

    def draw(
        self, x_0: Tensor, streams: Streams, *, valid: Tensor | None = None, strata: int | None = None
    ) -> TokenDraw:
        power = self._power()
        t = spread_over(self.spread, x_0, streams, strata) ** (1 / power)
        return self._token_draw(x_0, streams, valid, t, t ** (1 - power) / power, 0.0, 1.0)

    def _power(self) -> Tensor | float:
        if self.power is not None:
            return self.power
        schedule = self.process.schedule
        if not isinstance(schedule, TokenPolynomial):
            return 0.5
        return (schedule.w.detach().min() / 2).clamp(max=0.5)

    def log_q(self, x_0: Tensor, draw: Draw, valid: Tensor | None = None, *, times: bool = True) -> Tensor:
        """log q of the drawn mask [B] given its time, which does not depend on w."""
        del times
        return log_q_mask(self.process, x_0, draw, valid)

    def losses(self, logits: Tensor, positions: Positions, draw: Draw) -> Tensor:
        return generalized_losses(logits, positions, draw, self.process)


@dataclass(frozen=True)
class TokenSteps(TokenEstimator):
    """Steps (s, t) of a grid for GenMD4's T-step NELBO, all equally likely."""

    process: Process
    grid: Tensor
    spread: Spread = stratified

    def __post_init__(self) -> None:
        check_grid(self.grid)

    def draw(
        self, x_0: Tensor, streams: Streams, *, valid: Tensor | None = None, strata: int | None = None
    ) -> TokenDraw:
        t, s = steps_at(self.grid.to(x_0.device), spread_over(self.spread, x_0, streams, strata))
        weight = torch.full_like(t, len(self.grid) - 1)
        first, last = self.grid[-1].item(), self.grid[0].item()
        return replace(self._token_draw(x_0, streams, valid, t, weight, first, last), s=s)

    def losses(self, logits: Tensor, positions: Positions, draw: Draw) -> Tensor:
        return generalized_steps_losses(logits, positions, draw, self.process)


def generalized_nelbo(logits: Tensor, x_0: Tensor, draw: Draw, process: Process) -> Nelbo:
    """Continuous-time GenMD4 NELBO, Eq. (12): weight · Σ_masked [r_x(−log μ_x) + Σ_v (r_v − r_x) μ_v].

    logits [M, V] at the masked positions, in the order of x_0[draw.mask]; `draw` from `TokenTime`.
    """
    checks.tokens(x_0, process.vocab_size)
    return assemble(generalized_losses(logits, Positions.of(x_0, draw.mask), draw, process), draw)


def generalized_losses(logits: Tensor, positions: Positions, draw: Draw, process: Process) -> Tensor:
    """The summand of `generalized_nelbo` for each row [R]."""
    _check_draw(draw)
    rates, rate_x = _at_rows(-process.schedule.loss_weight(draw.t), positions)
    # Visible positions have no loss, and 0 times a rate beyond the float32 range is NaN.
    hidden = draw.mask.flatten()[positions.index]
    return charge_rates(logits, positions, rates.where(hidden[:, None], 0), rate_x.where(hidden, 0))


def charge_rates(logits: Tensor, positions: Positions, rates: Tensor, rate_x: Tensor) -> Tensor:
    """r_x(−log μ_x) + Σ_v (r_v − r_x) μ_v for each row [R], from all rates [R or 1, V] and the token's own rate [R]."""
    mu = logits.softmax(-1, dtype=softmax_dtype(logits))
    return rate_x * cross_entropy(logits, positions) + ((rates - rate_x[:, None]).to(mu.dtype) * mu).sum(-1)


def generalized_steps_nelbo(logits: Tensor, x_0: Tensor, draw: Draw, process: Process) -> Nelbo:
    """T-step GenMD4 NELBO (App. I), for draws of `TokenSteps`: weight · Σ_masked KL(q(x_s|x_t,x_0) ‖ p(x_s|x_t))."""
    checks.tokens(x_0, process.vocab_size)
    return assemble(generalized_steps_losses(logits, Positions.of(x_0, draw.mask), draw, process), draw)


def generalized_steps_losses(logits: Tensor, positions: Positions, draw: Draw, process: Process) -> Tensor:
    """With ξ = unmask_prob and stay = 1 − ξ, the KL of each row is ξ_x(−log μ_x) − stay_x·log Σ_v μ_v stay_v/stay_x."""
    draw = _check_draw(draw)
    if draw.s is None:
        fail(
            "the draw has no next time s",
            got="a continuous-time draw",
            allowed="a draw of TokenSteps",
            do="use generalized_nelbo for continuous time",
        )
    loss = cross_entropy(logits, positions)
    all_stay, log_stay_x = _at_rows(_log_stay(process, draw.s, draw.t), positions)
    logits = logits.to(softmax_dtype(logits))
    log_ratio = log_mean_exp(logits, (all_stay - log_stay_x[:, None]).to(logits.dtype))
    return -torch.expm1(log_stay_x) * loss - log_stay_x.exp() * log_ratio


def _log_stay(process: Process, s: Tensor, t: Tensor) -> Tensor:
    """log (1−α_s)/(1−α_t), with a finite value where nothing is masked at s, to avoid inf − inf and NaN gradients."""
    at_end = (process.schedule.mask_prob(s) == 0).reshape(len(s), -1).all(1)
    log_stay = process.schedule.log_stay(torch.where(at_end, t / 2, s), t)
    return torch.where(at_end.view(-1, *[1] * (log_stay.ndim - 1)), -1e4, log_stay)


def _check_draw(draw: Draw) -> TokenDraw:
    if not isinstance(draw, TokenDraw):
        fail(
            "the draw is not a GenMD4 draw",
            got=f"a {type(draw).__name__}",
            allowed="a draw of TokenTime or TokenSteps",
            do="use its estimator's nelbo",
        )
    return draw


def log_q_mask(process: Process, x_0: Tensor, draw: Draw, valid: Tensor | None = None) -> Tensor:
    """log q(x_t | x_0) of the drawn mask, summed over the valid tokens [B]; differentiable in w.

    Each branch is evaluated at the true time only where it is selected: at t = 1 the other one is log 0.
    """
    schedule, mask = process.schedule.at(x_0), draw.mask
    visible = ~mask if valid is None else ~mask & valid
    t = draw.t.view(-1, *[1] * (x_0.ndim - 1))
    log_masked = schedule.log_mask_prob(torch.where(mask, t, 0.5))
    log_visible = schedule.log_alpha(torch.where(visible, t, 0.5))
    zero = torch.zeros((), dtype=log_masked.dtype, device=log_masked.device)
    return (torch.where(mask, log_masked, zero) + torch.where(visible, log_visible, zero)).flatten(1).sum(1)


def rloo(loss_1: Tensor, loss_2: Tensor, log_q_1: Tensor, log_q_2: Tensor) -> Tensor:
    """The surrogate of App. I.2 [B]: its value is the mean of two losses at the same t, and its gradient is unbiased.

    ∇ E_q[L] = E_q[∇L + L ∇log q]; the second term is estimated by ½(L₁−L₂)(∇log q₁ − ∇log q₂), where each
    sample is the baseline of the other. Plain autodiff of the losses would miss it and push w towards 0.
    """
    score = 0.5 * (loss_1 - loss_2).detach() * (log_q_1 - log_q_2)
    return 0.5 * (loss_1 + loss_2) + score - score.detach()


def _at_rows(values: Tensor, positions: Positions) -> tuple[Tensor, Tensor]:
    """Per-sequence values for all tokens, [B, V] (or [B] if all tokens share one), gathered at the positions.

    Returns [R, V] (or [R, 1]) and the entry of each row's own token [R].
    """
    values = values[:, None] if values.ndim == 1 else values
    at_rows = values[positions.sequence]
    own = positions.target if values.shape[1] > 1 else torch.zeros_like(positions.target)
    return at_rows, at_rows.gather(1, own[:, None])[:, 0]
