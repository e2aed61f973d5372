"""The masking process: a schedule plus a mask token (Sec. 2, Sec. 6, App. C and I).

In the forward process each token independently jumps to the mask state m and stays there; in the reverse process a
masked token jumps to a value and stays there. The same formulas serve scalar schedules (MD4) and schedules that
depend on the token (GenMD4): `schedule.at(x)` is the schedule of each token in x.

Shapes: tokens x [B, ...], times s ≤ t [B], validity masks like x. Log-probabilities are per position.
`core.matrices` has the same distributions as (V+1)×(V+1) matrices, as a readable reference to test this file against.
"""

from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from ..mistakes import require
from . import checks
from .categorical import inverse_cdf
from .numeric import log1mexp, softmax_dtype
from .schedule import Schedule
from .streams import Streams


class Denoiser(Protocol):
    """Anything that predicts x_0 from x_t: a network, an oracle, or a wrapper around one."""

    def __call__(self, x_t: Tensor, t: Tensor, condition: Any = None) -> Tensor:
        """Logits of μ(x_t, t) over the V real tokens, [B, ..., V]; visible positions may hold anything."""
        ...


@dataclass(frozen=True)
class Process:
    """q and p of the paper for one schedule over tokens 0..V−1; the mask id is V."""

    schedule: Schedule
    vocab_size: int

    def __post_init__(self) -> None:
        require(
            self.vocab_size >= 1,
            "vocabulary size is not positive",
            got=self.vocab_size,
            allowed="an integer >= 1",
            do="pass the number of real tokens, without the mask",
        )

    @property
    def mask_id(self) -> int:
        """m = V, one more than the last real token."""
        return self.vocab_size

    # ----------------------------------------------------------------------------- probabilities

    def alpha(self, x: Tensor, t: Tensor) -> Tensor:
        """α_{t,x}: the probability that each token of x is still visible at time t."""
        return self._of(x).alpha(_column(t, x)).expand(x.shape)

    def mask_prob(self, x: Tensor, t: Tensor) -> Tensor:
        """1 − α_{t,x}: the probability that each token of x is masked at time t."""
        return self._of(x).mask_prob(_column(t, x)).expand(x.shape)

    def unmask_prob(self, x: Tensor, s: Tensor, t: Tensor) -> Tensor:
        """(α_s−α_t)/(1−α_t): the probability that a masked token with value x is revealed between t and s."""
        return self._of(x).unmask_prob(_column(s, x), _column(t, x)).expand(x.shape)

    def log_q(self, x_t: Tensor, x_0: Tensor, t: Tensor) -> Tensor:
        """log q(x_t | x_0) = log[α_t δ(x_t, x_0) + (1−α_t) δ(x_t, m)]."""
        self._check_states(x_0=x_0, x_t=x_t)
        schedule, t = self._of(x_0), _column(t, x_0)
        visible = torch.where(x_t == x_0, schedule.log_alpha(t), -torch.inf)
        return torch.where(x_t == self.mask_id, schedule.log_mask_prob(t), visible)

    def log_q_forward(self, x_t: Tensor, x_s: Tensor, s: Tensor, t: Tensor) -> Tensor:
        """log q(x_t | x_s): a visible token stays with probability α_t/α_s, a mask stays."""
        self._check_states(x_t=x_t, x_s=x_s)
        checks.ordered(s, t)
        schedule = self._of(x_s)
        log_keep = schedule.log_alpha(_column(t, x_s)) - schedule.log_alpha(_column(s, x_s))
        from_token = torch.where(x_t == x_s, log_keep, -torch.inf)
        from_token = torch.where(x_t == self.mask_id, log1mexp(log_keep), from_token)
        return torch.where(x_s == self.mask_id, _certain(x_t == self.mask_id), from_token)

    def log_q_reverse(self, x_s: Tensor, x_t: Tensor, x_0: Tensor, s: Tensor, t: Tensor) -> Tensor:
        """log q(x_s | x_t, x_0), App. C: a masked token becomes x_0 with `unmask_prob`, a visible one stays."""
        self._check_states(x_0=x_0, x_t=x_t, x_s=x_s)
        log_stay = self._log_stay(x_0, s, t)
        from_mask = torch.where(x_s == x_0, log1mexp(log_stay), -torch.inf)
        from_mask = torch.where(x_s == self.mask_id, log_stay, from_mask)
        return torch.where(x_t == self.mask_id, from_mask, _certain(x_s == x_t))

    def log_p_reverse(self, x_s: Tensor, x_t: Tensor, logits: Tensor, s: Tensor, t: Tensor) -> Tensor:
        """log p(x_s | x_t) = log q(x_s | x_t, μ), Eq. (2) and (11); logits [M, V] at the masked positions of x_t."""
        self._check_states(x_t=x_t, x_s=x_s)
        mask = x_t == self.mask_id
        log_reveal, log_stay = self.reverse_kernel(logits, mask, s, t)
        joint = torch.cat([log_reveal, log_stay[:, None]], dim=1)  # [M, V+1], the mask last
        log_p = _certain(x_s == x_t).to(joint.dtype)
        log_p[mask] = joint.gather(1, x_s[mask].long()[:, None])[:, 0]
        return log_p

    def reverse_kernel(self, logits: Tensor, mask: Tensor, s: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        """log p(x_s | x_t) at the masked positions: of every token [M, V] and of the mask [M].

        p(x_s = v) = μ_v (α_{s,v}−α_{t,v})/(1−α_{t,v}),  p(x_s = m) = Σ_v μ_v (1−α_{s,v})/(1−α_{t,v}).
        """
        row = mask.nonzero()[:, 0]
        checks.logits(logits, len(row), self.vocab_size)
        vocabulary = torch.arange(self.vocab_size, device=logits.device)
        log_stay = self._log_stay(vocabulary, s[row], t[row])  # [M, V], or [M, 1] if all tokens share one schedule
        log_mu = logits.log_softmax(-1, dtype=softmax_dtype(logits))
        stays = (log_mu + log_stay.to(log_mu.dtype)).logsumexp(-1)
        checks.not_nan(stays, "probabilities of the reverse process")
        return log_mu + log1mexp(log_stay).to(log_mu.dtype), stays

    # --------------------------------------------------------------------------------------- draws

    def hide(self, x: Tensor, mask: Tensor) -> Tensor:
        """x with the mask token where `mask` is true."""
        return x.masked_fill(mask, self.mask_id)

    def draw_mask(self, x_0: Tensor, t: Tensor, streams: Streams, valid: Tensor | None = None) -> Tensor:
        """Draw which positions are masked at time t, bool [B, ...]; padding (`valid` false) never is."""
        self._check_states(x_0=x_0)
        checks.times_of(t, x_0)
        mask = self._uniform(x_0, streams) < self.mask_prob(x_0, t)
        if valid is None:
            return mask
        checks.validity(valid, x_0)
        return mask & valid

    def draw_x_t(self, x_0: Tensor, t: Tensor, streams: Streams, valid: Tensor | None = None) -> Tensor:
        """x_t ~ q(x_t | x_0)."""
        return self.hide(x_0, self.draw_mask(x_0, t, streams, valid))

    def draw_forward(self, x_s: Tensor, s: Tensor, t: Tensor, streams: Streams) -> Tensor:
        """x_t ~ q(x_t | x_s)."""
        log_q = self.log_q_forward(torch.full_like(x_s, self.mask_id), x_s, s, t)
        return self.hide(x_s, self._uniform(x_s, streams) < log_q.exp())

    def draw_posterior(self, x_t: Tensor, x_0: Tensor, s: Tensor, t: Tensor, streams: Streams) -> Tensor:
        """x_s ~ q(x_s | x_t, x_0)."""
        self._check_states(x_0=x_0, x_t=x_t)
        reveal = self._uniform(x_0, streams) < self.unmask_prob(x_0, s, t)
        return torch.where((x_t == self.mask_id) & reveal, x_0, x_t)

    def draw_reverse(self, x_t: Tensor, logits: Tensor, s: Tensor, t: Tensor, streams: Streams) -> Tensor:
        """x_s ~ p(x_s | x_t): first which masked positions are revealed, then their tokens.

        The same distribution as one draw over the V+1 outcomes, but exact in floating point (`core.categorical`).
        """
        self._check_states(x_t=x_t)
        mask = x_t == self.mask_id
        where, what = self._uniform(x_t, streams), self._uniform(x_t, streams)
        if self.schedule.per_token:
            logits, log_stay = self.reverse_kernel(logits, mask, s, t)
            # from the odds: both sums stay accurate, while 1 − p(x_s = m) would cancel on a fine grid
            unmask_prob = (logits.logsumexp(-1).double() - log_stay.double()).sigmoid()
        else:  # the probability does not depend on which token is revealed: logits are not needed
            unmask_prob = self.unmask_prob(x_t, s, t)[mask]
            checks.logits(logits, len(unmask_prob), self.vocab_size)
        revealed = where[mask] < unmask_prob
        positions = torch.zeros_like(mask).masked_scatter(mask, revealed)
        x_s = x_t.clone()
        x_s[positions] = inverse_cdf(logits[revealed], what[positions]).to(x_t.dtype)
        return x_s

    # ------------------------------------------------------------------------------------- helpers

    def _uniform(self, x: Tensor, streams: Streams) -> Tensor:
        """One uniform per position, each sequence from its own stream."""
        checks.one_each(len(streams), x, "streams")
        return streams.uniform(*x.shape[1:])

    def _of(self, x: Tensor) -> Schedule:
        """The schedule of each token; masks in x get that of a real token, and callers discard the result."""
        return self.schedule.at(x.clamp(max=self.vocab_size - 1))

    def _log_stay(self, x: Tensor, s: Tensor, t: Tensor) -> Tensor:
        """log (1−α_s)/(1−α_t): a masked token with value x is still masked at s."""
        return self._of(x).log_stay(_column(s, x), _column(t, x))

    def _check_states(self, x_0: Tensor | None = None, **masked: Tensor) -> None:
        if x_0 is not None:
            checks.tokens(x_0, self.vocab_size)
        for x in masked.values():
            checks.tokens(x, self.vocab_size, allow_mask=True)


def _column(t: Tensor, x: Tensor) -> Tensor:
    """Times [B] shaped to broadcast against tokens [B, ...] (or against a vocabulary [V])."""
    return t.reshape(-1, *[1] * max(1, x.ndim - 1))


def _certain(event: Tensor) -> Tensor:
    """log 1 where the event holds, log 0 elsewhere."""
    return torch.where(event, 0.0, -torch.inf).double()
