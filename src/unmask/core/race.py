"""Exactly k tokens masked under GenMD4: its reverse process is a race.

In s = −log t a masked token v is revealed at the constant rate w_v, so the masked tokens of x_0 race with exponential
clocks: the next to appear is n with probability w_n / W_M, where W_M = Σ_{n∈M} w_n, and the set M lasts for a time of
mean 1/W_M that does not depend on the order. Eq. (12) summed along the race is

    NELBO(x_0) = E Σ_{k=1}^N (1/W_M) Σ_{n∈M} [ w_n (−log μ_n) + Σ_v (w_v − w_n) μ_v ],   M: the last k of the race,

which for equal w is exact-k. No time is left in it and no 1/t.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from ..mistakes import fail, require
from . import checks
from .estimator import ExactK, count_valid, hide_least
from .generalized import charge_rates
from .objective import Draw, RaceDraw, Rows
from .schedule import TokenPolynomial
from .streams import Streams


@dataclass(frozen=True)
class TokenExactK(ExactK):
    """Draws k by its law and the last k of the race, with weight 1/(q(k) W_M).

    A token is masked from time u^(1/w) on, so these are the k with the smallest such times. A network that sees the
    time is shown the k-th: M lasts until then, and the time left of an exponential clock is distributed as all of it.
    """

    def __post_init__(self) -> None:
        require(
            isinstance(self.process.schedule, TokenPolynomial),
            "the schedule is not a race",
            got=type(self.process.schedule).__name__,
            allowed="TokenPolynomial",
            do="use ExactK, or TokenTime",
        )

    @property
    def _w(self) -> Tensor:
        w: Tensor = self.process.schedule.w  # type: ignore[attr-defined]  # see above
        return w

    def draw_given_k(
        self, x_0: Tensor, k: Tensor, weight: Tensor, streams: Streams, valid: Tensor | None = None
    ) -> Draw:
        checks.one_each(len(streams), x_0, "streams")
        checks.k_range(k, count_valid(x_0, valid))
        w = self._w[x_0.long()]
        mask, last = hide_least(streams.uniform(*x_0.shape[1:]).log() / w, k, valid)
        total = (w * mask).flatten(1).sum(1)
        zero = torch.zeros_like(weight)
        shared = torch.where(k > 0, weight * k / torch.where(k > 0, total, 1.0), zero)
        return RaceDraw(last.clamp(max=0).exp(), mask, shared, zero, zero, zero)

    def losses(self, logits: Tensor, rows: Rows, draw: Draw) -> Tensor:
        del draw
        w = self._w.detach()
        return charge_rates(logits, rows, w[None], w[rows.target])

    def coverage(self) -> float:
        fail(
            "GenMD4 has no control variate",
            got=type(self).__name__,
            allowed="the scalar estimators",
            do="leave Controlled out",
        )
