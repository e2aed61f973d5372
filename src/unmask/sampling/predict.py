"""What a sampler asks: μ at some positions. Only rows that are asked about are computed, and each of them once."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..core import Denoiser, filter_logits
from ..core.numeric import softmax_dtype
from ..mistakes import require
from ..networks import Halves, Network
from .family import MASKED, UNIFORM, Family
from .reading import reader_for

Without = Callable[[Tensor, Any, Tensor], tuple[Tensor, Any]]
"""(tokens, condition, which samples the rows are) → what the network is shown with the condition taken away."""


@dataclass(frozen=True)
class Guidance:
    """log μ ∝ g·log μ_with + (1−g)·log μ_without: g = 1 is the condition as trained, more is more of it.

    This form sums to one, so that the speed of unmasking stays what the schedule says.
    """

    strength: float
    without: Without
    rising: bool = False
    """Weak while most is masked: 1 + (g−1)·(share of the positions that is revealed)."""

    def strengths(self, masked_share: Tensor) -> Tensor:
        """g of each row [R], from the share of its positions that is masked."""
        g = torch.full_like(masked_share, self.strength)
        return 1 + (g - 1) * (1 - masked_share) if self.rising else g


def guided(with_it: Tensor, without: Tensor, strength: Tensor) -> Tensor:
    """Combine logits [M, V] by g [M]; what is impossible with the condition stays so."""
    log_with, log_without = (x.log_softmax(-1, dtype=softmax_dtype(x)) for x in (with_it, without))
    g = strength[:, None].to(log_with.dtype)
    mixed = g * log_with + (1 - g) * log_without.clamp(min=-1e4)
    return torch.where(log_with > -torch.inf, mixed, -torch.inf)


_LOGITS = 1 << 27
"""How many logits `Answer.each` holds at the same time."""

Part = slice | Tensor
"""Some of the positions of an answer: a range of them, their numbers, or a mask."""


@dataclass(frozen=True)
class Answer:
    """What the network says about M positions. It is held as features; logits are made where they are asked for."""

    count: int
    vocab_size: int
    of: Callable[[Part], Tensor]
    """Logits [m, V] of some of the positions."""

    def __len__(self) -> int:
        return self.count

    def logits(self) -> Tensor:
        """All of them, [M, V]."""
        return self.of(slice(None))

    def each(self, function: Callable[[Tensor, slice], tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
        """function(logits [m, V], which positions) → values [m] …, joined to [M]; never all logits at once."""
        size = max(1, _LOGITS // self.vocab_size)
        parts = [slice(start, start + size) for start in range(0, max(1, self.count), size)]
        found = [function(self.of(part), part) for part in parts]
        return tuple(torch.cat(values) for values in zip(*found, strict=True))


class Predictor:
    """A denoiser with its condition, guidance and filters; counts how often it is asked.

    cache: keep what the network said about a row until the row changes. Only for networks that do not see the time;
    None: where that is known (`Network.sees_time`).
    halves: a faster way through the network, such as `networks.Replayed`.
    family: what its predictions mean.
    """

    def __init__(
        self,
        denoiser: Denoiser | Network,
        mask_id: int,
        condition: Tensor | None = None,
        *,
        guidance: Guidance | None = None,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        cache: bool | None = None,
        halves: Halves | None = None,
        family: Family = MASKED,
    ):
        self.mask_id, self.condition, self.guidance = mask_id, condition, guidance
        self.family, self.filtered = family, (temperature, top_k, top_p) != (1.0, None, None)
        self.block: int = getattr(denoiser, "block", 0)
        self.sees_time = getattr(denoiser, "sees_time", True)
        self._filters: dict[str, Any] = {"temperature": temperature, "top_k": top_k, "top_p": top_p}
        filter_logits(torch.zeros(1, 2), **self._filters)  # complain now, not after the first call
        require(
            guidance is None or not guidance.rising or family is not UNIFORM,
            "guidance cannot rise here",
            got=family.name,
            allowed="a model with masks, of which fewer and fewer are left",
            do="leave rising out",
        )
        cached = not self.sees_time if cache is None else cache
        self._with, self._without = (reader_for(denoiser, cached, halves) for _ in range(2))

    @property
    def calls(self) -> int:
        """Rows that the network has computed."""
        return self._with.calls + self._without.calls

    def __call__(self, x: Tensor, t: Tensor, where: Tensor, samples: Tensor | None = None) -> Tensor:
        """Logits [M, V] at the positions `where` [B, ...] of x at times t [B], in their order."""
        return self.ask(x, t, where, samples).logits()

    def ask(self, x: Tensor, t: Tensor, where: Tensor, samples: Tensor | None = None) -> Answer:
        """What the network says about the positions `where` [B, ...] of x at times t [B], in their order.

        samples: which sample each row of x is a state of, where that is not simply the row.
        """
        keep = samples is None  # other rows than the samples themselves are seen once
        samples = torch.arange(len(x), device=x.device) if samples is None else samples
        condition = None if self.condition is None else self.condition[samples]
        hidden = self._with(x, t, condition, where, keep=keep)
        if not len(hidden):
            return Answer(0, self.mask_id, lambda _: torch.zeros(0, self.mask_id, device=x.device))
        if self.guidance is None:
            return Answer(len(hidden), self.mask_id, lambda part: self._filtered(self._with.head(hidden[part])))
        other_x, condition = self.guidance.without(x, condition, samples)
        other = self._without(other_x, t, condition, where, keep=keep)
        share = (x == self.mask_id).flatten(1).double().mean(1)
        g = self.guidance.strengths(share)[where.nonzero()[:, 0]]

        def logits(part: Part) -> Tensor:
            return self._filtered(guided(self._with.head(hidden[part]), self._without.head(other[part]), g[part]))

        return Answer(len(hidden), self.mask_id, logits)

    def _filtered(self, logits: Tensor) -> Tensor:
        return filter_logits(logits, **self._filters)
