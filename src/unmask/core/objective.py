"""The bound to minimise: a weighted sum of masked cross-entropies plus two end terms (Sec. 3, App. D, E).

Every form of the scalar NELBO — continuous time, T steps, log-SNR, exact-k — is

    NELBO(x_0) = E[ weight · Σ_{n masked} −log μ^(n)(x_0^(n) | x_t, t) ] + reconstruction + prior,

and they differ only in how (t, mask, weight) are drawn. The estimator draws them, and `nelbo` evaluates the
draw, in nats per sequence. GenMD4's objective, whose summand also contains the rates, is in `generalized`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from ..mistakes import require
from . import checks
from .numeric import softmax_dtype
from .process import Process


@dataclass(frozen=True)
class Draw:
    """One evaluation of the denoiser per row: what it sees and how its loss is weighted."""

    per_token: ClassVar[bool] = False
    """Whether the summand of the bound also contains the rates of all tokens (GenMD4)."""

    t: Tensor
    """Time shown to the denoiser [B]."""
    mask: Tensor
    """The masked positions, bool, shaped like the tokens [B, ...]; padding is never masked."""
    weight: Tensor
    """Per-sequence weight of the sum over masked positions [B]."""
    control: Tensor
    """A control variate of mean zero, added to the diffusion term [B]."""
    reconstruction: Tensor
    """Reconstruction term: the cost of the noise left at the smallest covered time [B]."""
    prior: Tensor
    """Prior term: the cost of the signal left at the largest covered time [B]."""
    count: int | None = None
    """Number of masked positions in the batch, if known without reading the mask."""


@dataclass(frozen=True)
class TokenDraw(Draw):
    """A draw for GenMD4, whose objectives contribute the rates: `weight` is only one over the density of the time."""

    per_token: ClassVar[bool] = True
    s: Tensor | None = None
    """The next time of a T-step process [B]; None in continuous time."""


@dataclass(frozen=True)
class RaceDraw(Draw):
    """A draw for GenMD4 whose weight does not depend on time: its estimator contributes the w."""

    per_token: ClassVar[bool] = True
    rings: Tensor | None = None
    """When the clock of each token rings, in −log t; shaped like the tokens. Those of masked tokens are yet to ring."""


@dataclass(frozen=True)
class Nelbo:
    """−ELBO and its terms, in nats per sequence [B]."""

    diffusion: Tensor
    reconstruction: Tensor
    prior: Tensor

    @property
    def total(self) -> Tensor:
        return self.diffusion + self.reconstruction + self.prior


Objective = Callable[[Tensor, Tensor, Draw], Nelbo]
"""(logits at the masked positions [M, V], x_0, draw) → Nelbo."""


@dataclass(frozen=True)
class Positions:
    """The masked positions of a batch, in the order of x_0[mask]: their sequences and their hidden tokens."""

    sequence: Tensor
    """Index of the sequence within the batch [M]."""
    target: Tensor
    """The hidden token [M]."""
    index: Tensor
    """Index of the position within the flattened batch [M]."""

    @classmethod
    def of(cls, x_0: Tensor, mask: Tensor, count: int | None = None) -> "Positions":
        """All masked positions of x_0. Passing their number `count` avoids waiting for a GPU."""
        checks.same_shape(mask, x_0, "mask")
        flat = mask.flatten()
        if count is None:
            index = flat.nonzero()[:, 0]
        else:  # the masked positions first, in their original order
            index = flat.to(torch.uint8).sort(descending=True, stable=True).indices[:count]
        return cls(index // x_0[0].numel(), x_0.flatten()[index].long(), index)

    @classmethod
    def every(cls, x_0: Tensor) -> "Positions":
        """All positions, masked or not."""
        index = torch.arange(x_0.numel(), device=x_0.device)
        return cls(index // x_0[0].numel(), x_0.flatten().long(), index)

    def padded(self, count: int) -> "Positions":
        """Padded to `count` rows by repeating the first row at the end."""
        extra = count - len(self.index)
        if not extra:
            return self
        fill = (torch.cat([t, t[:1].expand(extra)]) for t in (self.sequence, self.target, self.index))
        return Positions(*fill)

    def part(self, part: slice) -> "Positions":
        """A slice of the rows."""
        return Positions(self.sequence[part], self.target[part], self.index[part])


def cross_entropy(logits: Tensor, positions: Positions) -> Tensor:
    """−log μ(x_0) for each row [R], from its logits [R, V]."""
    checks.logits(logits, len(positions.target), logits.shape[-1])
    losses = F.cross_entropy(logits.to(softmax_dtype(logits)), positions.target, reduction="none")
    checks.not_nan(losses, "losses")
    return losses


def sum_per_sequence(values: Tensor, mask: Tensor) -> Tensor:
    """Sum values [M] at masked positions within each sequence: [B].

    Values are scattered to their positions and summed: unlike index_add, this is deterministic on a GPU.
    """
    return values.new_zeros(mask.shape).masked_scatter(mask, values).flatten(1).sum(1)


def assemble(losses: Tensor, draw: Draw) -> Nelbo:
    """The bound from the losses at all masked positions [M], however they were computed."""
    return Nelbo(draw.weight * sum_per_sequence(losses, draw.mask) + draw.control, draw.reconstruction, draw.prior)


def nelbo(logits: Tensor, x_0: Tensor, draw: Draw) -> Nelbo:
    """Eq. (5) and its relatives: weight · Σ masked cross-entropy, with the end terms of App. D and E.

    logits [M, V] are the denoiser's output at the masked positions, in the order of x_0[draw.mask].
    """
    require(
        not draw.per_token,
        "the draw is a GenMD4 draw",
        got=f"a {type(draw).__name__}",
        allowed="a draw of an estimator for scalar schedules",
        do="use its estimator's nelbo",
    )
    checks.tokens(x_0, logits.shape[-1])
    return assemble(cross_entropy(logits, Positions.of(x_0, draw.mask)), draw)


def reconstruction(process: Process, x_0: Tensor, t: float, valid: Tensor | None = None) -> Tensor:
    """−E log p(x_0 | x_t) with p(x_0 | x_t) ∝ q(x_t | x_0) (App. D), in nats per sequence [B].

    A token masked at t must be guessed with probability proportional to 1−α_{t,v}:
    Σ_n (1−α_{t,x_n}) [log Σ_v (1−α_{t,v}) − log(1−α_{t,x_n})], which is N(1−α_t) log V for a scalar schedule.
    """
    mask_prob = process.mask_prob(x_0, _every_row(t, x_0))
    total = process.mask_prob(_vocabulary(process, x_0), _every_row(t, x_0)[:1]).sum()
    # 0·log 0 = 0, written so that its gradient is 0 as well
    guess = torch.where(total > 0, total, 1.0).log() - torch.where(mask_prob > 0, mask_prob, 1.0).log()
    return _sum_valid(mask_prob * guess, valid)


def prior(process: Process, x_0: Tensor, t: float, valid: Tensor | None = None) -> Tensor:
    """KL(q(x_t | x_0) ‖ p(x_t)) at the last time (App. E), in nats per sequence [B].

    The prior puts α_{t,v}/V on each token and the rest on the mask, so a position costs
    α_x log V + (1−α_x) log[(1−α_x)/(1−ᾱ)]: α_t log V for a scalar schedule, zero if α_t = 0.
    """
    alpha = process.alpha(x_0, _every_row(t, x_0))
    mean_alpha = process.alpha(_vocabulary(process, x_0), _every_row(t, x_0)[:1]).mean()
    kl = alpha * math.log(process.vocab_size) + (1 - alpha) * (torch.log1p(-alpha) - torch.log1p(-mean_alpha))
    return _sum_valid(kl, valid)


def _every_row(t: float, x_0: Tensor) -> Tensor:
    return torch.full((len(x_0),), t, dtype=torch.float64, device=x_0.device)


def _vocabulary(process: Process, x_0: Tensor) -> Tensor:
    return torch.arange(process.vocab_size, device=x_0.device)[None]


def _sum_valid(values: Tensor, valid: Tensor | None) -> Tensor:
    return (values if valid is None else values * valid).flatten(1).sum(1)
