"""Exactly k tokens masked under GenMD4: its reverse process is a race.

In the time s = −log t a masked token v is revealed at the constant rate w_v, so the masked tokens of x_0 race with
exponential clocks: the next one revealed is n with probability w_n / W_M, where W_M = Σ_{n∈M} w_n, and the set M lasts
for a time of mean 1/W_M, independent of the order. Eq. (12) summed along the race is

    NELBO(x_0) = E Σ_{k=1}^N (1/W_M) Σ_{n∈M} [ w_n (−log μ_n) + Σ_v (w_v − w_n) μ_v ],   M: the last k of the race,

which for equal w is exact-k. It contains no time and no factor 1/t. It charges for the waiting times, too: the sampler
`race` of a network that does not see the time has a smaller bound, with log(R/W_M) instead of R/W_M − 1, where
R = Σ_{n∈M} Σ_v μ_nv w_v.
"""

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from ..mistakes import fail, require
from . import checks
from .estimator import Estimator, ExactK, count_valid, hide_least
from .generalized import charge_rates
from .objective import Draw, Positions, RaceDraw
from .schedule import TokenPolynomial, exponents
from .streams import Streams


@dataclass(frozen=True)
class TokenExactK(ExactK):
    """Draws k from q(k) and masks the last k tokens of the race, with weight 1/(q(k) W_M).

    A token is masked from time u^(1/w) on, so these are the k tokens with the smallest such times. A network that sees
    the time is shown the k-th: M lasts until then, and the remaining time of an exponential clock is distributed like
    the whole (it is memoryless).
    """

    def __post_init__(self) -> None:
        require(
            isinstance(self.process.schedule, TokenPolynomial),
            "the schedule is not a race",
            got=type(self.process.schedule).__name__,
            allowed="TokenPolynomial",
            do="use ExactK or TokenTime",
        )

    @property
    def _w(self) -> Tensor:
        return exponents(self.process.schedule)

    def draw_given_k(
        self, x_0: Tensor, k: Tensor, weight: Tensor, streams: Streams, valid: Tensor | None = None
    ) -> RaceDraw:
        checks.one_each(len(streams), x_0, "streams")
        checks.k_range(k, count_valid(x_0, valid))
        w = self._w[x_0.long()]
        rings = -streams.uniform(*x_0.shape[1:]).log() / w.detach()
        mask, last = hide_least(-rings, k, valid)
        total = (w * mask).flatten(1).sum(1)
        zero = torch.zeros_like(weight)
        shared = torch.where(k > 0, weight * k / torch.where(k > 0, total, 1.0), zero)
        return RaceDraw(last.clamp(max=0).exp(), mask, shared, zero, zero, zero, rings=rings)

    def draw_pair(
        self, x_0: Tensor, streams: Streams, *, valid: Tensor | None = None, strata: int | None = None
    ) -> tuple[RaceDraw, RaceDraw]:
        """Two races with the same k, for `rloo`."""
        k, weight = self.draw_k(x_0, streams, valid=valid, strata=strata)
        count = self._count(x_0, streams, valid)
        first, second = (replace(self.draw_given_k(x_0, k, weight, streams, valid), count=count) for _ in range(2))
        return first, second

    def log_q(self, x_0: Tensor, draw: Draw, valid: Tensor | None = None, *, times: bool = True) -> Tensor:
        """log q of a drawn race until k tokens are left [B], differentiable in w: of which clock rang when or, without
        times, of the order only. A network that does not see the time depends only on the order, which varies less.

        With s_j the time of the j-th ring and W_j = Σ w of the clocks still running until then, it is

            Σ_{j ≤ N−k} log(w_j / W_j)  +  Σ_{j ≤ N−k+1} [log W_j − W_j (s_j − s_{j−1})].
        """
        if not isinstance(draw, RaceDraw) or draw.rings is None:
            fail("the race is unknown", got=f"a {type(draw).__name__}", allowed="a drawn race", do="draw one")
        w, hidden = self._w[x_0.long()].flatten(1), draw.mask.flatten(1)
        rung = ~hidden if valid is None else ~hidden & valid.flatten(1)
        ends, order = draw.rings.flatten(1).masked_fill(~rung, torch.inf).sort(dim=1)
        rang, own, left = ends.isfinite(), (w * rung).gather(1, order), (w * hidden).sum(1)
        running = own.flip(1).cumsum(1).flip(1) + left[:, None]
        log_q = _log(own, rang) - _log(running, rang)
        if not times:
            return log_q.sum(1)
        ends = ends.where(rang, 0.0)
        waited = ends - F.pad(ends[:, :-1], (1, 0))
        log_q = log_q + _log(running, rang) - (running * waited).where(rang, 0.0)
        last = -draw.t.log() - ends.amax(1)
        return log_q.sum(1) + _log(left, left > 0) - left * last

    def losses(self, logits: Tensor, positions: Positions, draw: Draw) -> Tensor:
        del draw
        return charge_rates(logits, positions, self._w[None], self._w[positions.target])

    def coverage(self) -> float:
        return Estimator.coverage(self)  # its losses also contain rates


def _log(x: Tensor, where: Tensor) -> Tensor:
    """log x where the condition holds, 0 elsewhere, also for gradients."""
    return x.where(where, 1.0).log()
