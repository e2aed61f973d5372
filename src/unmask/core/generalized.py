"""GenMD4: masking schedules that depend on the token, and how to learn them (Sec. 6, App. H).

With rates r_v(t) = −α'_{t,v}/(1−α_{t,v}) (w_v/t for the polynomial schedule) a masked position costs

    r_x·(−log μ_x) + Σ_v (r_v − r_x) μ_v   ≥ 0,

Eq. (12) rearranged so that equal rates give MD4's weighted cross-entropy to the last bit. The law of the
masks depends on w, so its gradient needs the two-sample leave-one-out estimator `rloo`.

A GenMD4 denoiser must see t: given that a token is masked at t, its posterior is ∝ p(v | context)·(1−α_{t,v}).
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ..mistakes import fail
from .estimator import Estimator, draw_steps, independent_masks
from .grid import check_grid
from .numeric import softmax_dtype
from .objective import Draw, Nelbo, cross_entropy, sum_per_sequence
from .points import Spread, lattice, stratified
from .process import Process
from .streams import Streams


@dataclass(frozen=True)
class TokenTime(Estimator):
    """Times for GenMD4's continuous NELBO: t = u^(1/power), weight t^(1−power)/power, masks by each token's α.

    power 1 is the paper's uniform time. With one mask per time the second moment of the estimate behaves
    like ∫ t^(w−power−1) dt at t → 0, finite only for power < w: hence ½, which is safe for w > ½.
    """

    process: Process
    spread: Spread = lattice
    power: float = 0.5

    def draw(self, x_0: Tensor, streams: Streams, *, valid: Tensor | None = None, strata: int | None = None) -> Draw:
        t = self.spread(streams, strata or len(x_0)) ** (1 / self.power)
        weight = t ** (1 - self.power) / self.power
        return independent_masks(self.process, x_0, streams, valid, t=t, weight=weight, first=0.0, last=1.0)

    def draw_pair(
        self, x_0: Tensor, streams: Streams, *, valid: Tensor | None = None, strata: int | None = None
    ) -> tuple[Draw, Draw]:
        """Two draws at the same times with independent masks, for `rloo`."""
        first = self.draw(x_0, streams, valid=valid, strata=strata)
        return first, replace(first, mask=self.process.draw_mask(x_0, first.t, streams, valid))


@dataclass(frozen=True)
class TokenSteps(Estimator):
    """Steps (s, t) of a grid for GenMD4's T-step NELBO, all equally likely, masks by each token's α."""

    process: Process
    grid: Tensor
    spread: Spread = stratified

    def __post_init__(self) -> None:
        check_grid(self.grid)

    def draw(self, x_0: Tensor, streams: Streams, *, valid: Tensor | None = None, strata: int | None = None) -> Draw:
        t, s = draw_steps(self.grid.to(x_0.device), self.spread(streams, strata or len(x_0)))
        weight = torch.full_like(t, len(self.grid) - 1)
        first, last = self.grid[-1].item(), self.grid[0].item()
        draw = independent_masks(self.process, x_0, streams, valid, t=t, weight=weight, first=first, last=last)
        return replace(draw, s=s)


def generalized_nelbo(logits: Tensor, x_0: Tensor, draw: Draw, process: Process) -> Nelbo:
    """Continuous-time GenMD4 NELBO, Eq. (12): weight · Σ_masked [r_x(−log μ_x) + Σ_v (r_v − r_x) μ_v].

    logits [M, V] at the masked positions, in the order of x_0[draw.mask]; `draw` from `TokenTime`.
    """
    loss = cross_entropy(logits, x_0, draw.mask)
    rates, rate_x = _of_vocabulary_and_target(-process.schedule.loss_weight(draw.t), x_0, draw.mask)
    mu = logits.softmax(-1, dtype=softmax_dtype(logits))
    summand = rate_x * loss + ((rates - rate_x[:, None]) * mu).sum(-1)
    return Nelbo(draw.weight * sum_per_sequence(summand, draw.mask) + draw.control, draw.reconstruction, draw.prior)


def generalized_steps_nelbo(logits: Tensor, x_0: Tensor, draw: Draw, process: Process) -> Nelbo:
    """T-step GenMD4 NELBO (App. H): with ξ = unmask_prob and stay = 1 − ξ,

    KL(q(x_s|x_t,x_0) ‖ p(x_s|x_t)) = ξ_x(−log μ_x) − stay_x·log Σ_v μ_v stay_v/stay_x.
    """
    if draw.s is None:
        fail(
            "the draw has no next time s",
            got="a continuous-time draw",
            allowed="a draw of TokenSteps",
            do="use generalized_nelbo for continuous time",
        )
    loss = cross_entropy(logits, x_0, draw.mask)
    # at s = 0 nothing stays; a finite stand-in for log 0 keeps values and gradients free of inf − inf
    log_stay, log_stay_x = _of_vocabulary_and_target(
        process.schedule.log_stay(draw.s, draw.t).clamp(min=-1e4), x_0, draw.mask
    )
    logits = logits.to(softmax_dtype(logits))
    log_ratio = (logits + (log_stay - log_stay_x[:, None])).logsumexp(-1) - logits.logsumexp(-1)
    summand = -torch.expm1(log_stay_x) * loss - log_stay_x.exp() * log_ratio
    return Nelbo(draw.weight * sum_per_sequence(summand, draw.mask) + draw.control, draw.reconstruction, draw.prior)


def log_q_mask(process: Process, x_0: Tensor, draw: Draw, valid: Tensor | None = None) -> Tensor:
    """log q(x_t | x_0) of the drawn mask, summed over the tokens that count [B]; differentiable in w."""
    log_q = process.log_q(process.hide(x_0, draw.mask), x_0, draw.t)
    return (log_q if valid is None else log_q * valid).flatten(1).sum(1)


def rloo(loss_1: Tensor, loss_2: Tensor, log_q_1: Tensor, log_q_2: Tensor) -> Tensor:
    """The surrogate of App. H.2 [B]: its value is the mean of two losses at the same t, its gradient is unbiased.

    ∇ E_q[L] = E_q[∇L + L ∇log q]; the second term is estimated by ½(L₁−L₂)(∇log q₁ − ∇log q₂), each sample
    serving as the other's baseline. Plain autodiff of the losses would miss it and push w towards 0.
    """
    score = 0.5 * (loss_1 - loss_2).detach() * (log_q_1 - log_q_2)
    return 0.5 * (loss_1 + loss_2) + score - score.detach()


def _of_vocabulary_and_target(values: Tensor, x_0: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Per-sequence values for all tokens, [B, V] (or [B] if all tokens share one), at the masked rows.

    Returns [M, V] (or [M, 1]) and the entry of each position's own token [M].
    """
    values = values[:, None] if values.ndim == 1 else values
    at_rows = values[mask.flatten(1).nonzero()[:, 0]]
    targets = x_0[mask].long() if values.shape[1] > 1 else torch.zeros_like(x_0[mask]).long()
    return at_rows, at_rows.gather(1, targets[:, None])[:, 0]
