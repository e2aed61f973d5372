"""The predictor that samplers call for μ at some positions. Only the requested rows are computed, each of them once."""

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
"""(tokens, condition, sample index of each row) → the network's inputs without the condition."""


@dataclass(frozen=True)
class Guidance:
    """log μ ∝ g·log μ_with + (1−g)·log μ_without: g = 1 is the condition as trained, larger g strengthens it.

    The product is normalised, so the schedule still sets the speed of unmasking; for scores (SEDD), whose sum has a
    meaning, the sum is that with the condition.
    """

    strength: float
    without: Without
    rising: bool = False
    """Whether guidance starts weak and rises: 1 + (g−1)·(share of revealed positions)."""

    def strengths(self, masked_share: Tensor) -> Tensor:
        """g of each row [R], from its share of masked positions."""
        g = torch.full_like(masked_share, self.strength)
        return 1 + (g - 1) * (1 - masked_share) if self.rising else g


def guided(with_it: Tensor, without: Tensor, strength: Tensor) -> Tensor:
    """Combine logits [M, V] with strengths g [M]; tokens that are impossible with the condition stay impossible.

    Σ_v e^{logit_v} remains that of `with_it`.
    """
    log_with, log_without = (x.log_softmax(-1, dtype=softmax_dtype(x)) for x in (with_it, without))
    g = strength[:, None].to(log_with.dtype)
    mixed = g * log_with + (1 - g) * log_without.clamp(min=-1e4)
    mixed = torch.where(log_with > -torch.inf, mixed, -torch.inf)
    return mixed.log_softmax(-1) + with_it.to(mixed.dtype).logsumexp(-1, keepdim=True)


_LOGITS = 1 << 27
"""The number of logits that `Answer.each` holds at a time."""

Part = slice | Tensor
"""Some positions of an answer: a range, indices or a mask."""


@dataclass(frozen=True)
class Answer:
    """The network's predictions at M positions, held as features; logits are computed on demand."""

    count: int
    vocab_size: int
    of: Callable[[Part], Tensor]
    """Logits [m, V] at some of the positions."""

    def __len__(self) -> int:
        return self.count

    def logits(self) -> Tensor:
        """All logits [M, V]."""
        return self.of(slice(None))

    def each(self, function: Callable[[Tensor, slice], tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
        """Apply function(logits [m, V], positions) → values [m] … part by part and join the values to [M]."""
        size = max(1, _LOGITS // self.vocab_size)
        parts = [slice(start, start + size) for start in range(0, max(1, self.count), size)]
        found = [function(self.of(part), part) for part in parts]
        return tuple(torch.cat(values) for values in zip(*found, strict=True))


class Predictor:
    """A denoiser with its condition, guidance and filters; counts its calls.

    cache: keep the network's output for a row until the row changes. Only for networks that do not see the time;
    None: if the network is known not to (`Network.sees_time`).
    halves: a faster implementation of the network's two halves, such as `networks.Replayed`.
    family: what the predictions mean.
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
        top_p = None if top_p == 1 else top_p  # it keeps everything
        self.mask_id, self.condition, self.guidance = mask_id, condition, guidance
        self.family, self.filtered = family, (temperature, top_k, top_p) != (1.0, None, None)
        self.block: int = getattr(denoiser, "block", 0)
        self.sees_time = getattr(denoiser, "sees_time", True)
        self._filters: dict[str, Any] = {"temperature": temperature, "top_k": top_k, "top_p": top_p}
        filter_logits(torch.zeros(1, 2), **self._filters)  # fail now, not after the first call
        require(
            guidance is None or not guidance.rising or family is not UNIFORM,
            "guidance cannot rise here",
            got=family.name,
            allowed="a model whose number of masks falls during sampling",
            do="leave out rising",
        )
        cached = not self.sees_time if cache is None else cache
        self._with, self._without = (reader_for(denoiser, cached, halves) for _ in range(2))

    @property
    def calls(self) -> int:
        """The number of rows that the network has computed."""
        return self._with.calls + self._without.calls

    def __call__(self, x: Tensor, t: Tensor, where: Tensor, samples: Tensor | None = None) -> Tensor:
        """Logits [M, V] at the positions `where` [B, ...] of x at times t [B], in order."""
        return self.ask(x, t, where, samples).logits()

    def ask(self, x: Tensor, t: Tensor, where: Tensor, samples: Tensor | None = None) -> Answer:
        """The network's answer at the positions `where` [B, ...] of x at times t [B], in order.

        samples: the sample that each row of x is a state of; None if row b is sample b.
        """
        keep = samples is None  # rows other than the samples themselves are seen only once
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
