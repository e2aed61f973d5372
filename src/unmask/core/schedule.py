"""Masking schedules α_t: the probability that a token is still visible at time t (Sec. 2, Tab. 4).

t = 0 is data, t = 1 is all masked. A schedule gives both α and 1−α to full relative precision, because one
of them is tiny near either end: 1−α_t determines the loss weight near t = 0, and α_t near t = 1 determines
the first tokens of a sample. All functions work elementwise on float32 or float64 tensors.
"""

import math
from abc import ABC, abstractmethod

import torch
from torch import Tensor

from ..mistakes import fail, require
from . import checks
from .numeric import log1mexp, log_of_complement_pair


class Schedule(ABC):
    """α_t, α'_t, loss weight α'_t/(1−α_t), log-SNR and their inverses. Subclasses define four functions."""

    @abstractmethod
    def alpha(self, t: Tensor) -> Tensor:
        """α_t, accurate where it is tiny (t near 1)."""

    @abstractmethod
    def mask_prob(self, t: Tensor) -> Tensor:
        """1 − α_t, accurate where it is tiny (t near 0)."""

    @abstractmethod
    def dalpha(self, t: Tensor) -> Tensor:
        """α'_t = dα_t/dt ≤ 0."""

    @abstractmethod
    def time(self, alpha: Tensor, mask_prob: Tensor) -> Tensor:
        """The t at which α_t = alpha, given both alpha and mask_prob = 1 − alpha to full precision."""

    def loss_weight(self, t: Tensor) -> Tensor:
        """α'_t/(1−α_t) ≤ 0: minus the weight of the masked cross-entropy in Eq. (4)."""
        return self.dalpha(t) / self.mask_prob(t)

    def log_alpha(self, t: Tensor) -> Tensor:
        """log α_t, accurate at both ends."""
        return log_of_complement_pair(self.alpha(t), self.mask_prob(t))

    def log_mask_prob(self, t: Tensor) -> Tensor:
        """log(1 − α_t), accurate at both ends."""
        return log_of_complement_pair(self.mask_prob(t), self.alpha(t))

    def log_snr(self, t: Tensor) -> Tensor:
        """λ_t = log α_t/(1−α_t), decreasing in t (Sec. 3)."""
        return self.log_alpha(t) - self.log_mask_prob(t)

    def log_stay(self, s: Tensor, t: Tensor) -> Tensor:
        """log (1−α_s)/(1−α_t): a token masked at t is still masked at s ≤ t."""
        checks.ordered(s, t)
        at_t = self.log_mask_prob(t)
        # where 1−α_t rounds to 0 nothing is masked, so any value is correct
        return torch.where(at_t > -torch.inf, self.log_mask_prob(s) - at_t, 0.0)

    def unmask_prob(self, s: Tensor, t: Tensor) -> Tensor:
        """(α_s−α_t)/(1−α_t): a token masked at t is revealed by s ≤ t."""
        return -torch.expm1(self.log_stay(s, t))

    def inverse(self, alpha: Tensor) -> Tensor:
        """The t with α_t = alpha; values outside the range of the schedule give the nearer end."""
        return self._clamped_time(alpha, 1 - alpha)

    def inverse_mask_prob(self, mask_prob: Tensor) -> Tensor:
        """The t with 1 − α_t = mask_prob, accurate for tiny mask_prob; clamped like `inverse`."""
        return self._clamped_time(1 - mask_prob, mask_prob)

    def time_of(self, masked_share: Tensor) -> Tensor:
        """The t at which this share is masked on average: the time shown to a network if only the share is known."""
        return self.inverse_mask_prob(masked_share)

    def inverse_log_snr(self, log_snr: Tensor) -> Tensor:
        """The t with λ_t = log_snr; clamped like `inverse`."""
        return self._clamped_time(torch.sigmoid(log_snr), torch.sigmoid(-log_snr))

    @property
    def per_token(self) -> bool:
        """Whether tokens have schedules of their own (GenMD4)."""
        return False

    @property
    def time_power(self) -> float:
        """p for times t = u^(1/p) with independent masks: below 1 where uniform times give a useless variance.

        For 1, uniform times, the variance of the weight is at most ∫ dt/t, which the paper's shift makes finite.
        """
        return 1.0

    def at(self, tokens: Tensor) -> "Schedule":
        """The schedule of each given token. A scalar schedule is the same for all tokens."""
        del tokens
        return self

    def _clamped_time(self, alpha: Tensor, mask_prob: Tensor) -> Tensor:
        checks.probabilities(alpha, "α")
        return self.time(alpha, mask_prob).clamp(0, 1)


class Linear(Schedule):
    """α_t = 1 − t, loss weight −1/t."""

    def alpha(self, t: Tensor) -> Tensor:
        checks.times(t)
        return 1 - t

    def mask_prob(self, t: Tensor) -> Tensor:
        checks.times(t)
        return t.clone()

    def dalpha(self, t: Tensor) -> Tensor:
        checks.times(t)
        return -torch.ones_like(t)

    def time(self, alpha: Tensor, mask_prob: Tensor) -> Tensor:
        del alpha
        return mask_prob

    def __repr__(self) -> str:
        return "Linear()"


class Polynomial(Schedule):
    """α_t = 1 − t^w, loss weight −w/t. `w` may be a tensor that broadcasts against t."""

    def __init__(self, w: float | Tensor):
        checks.positive(w, "polynomial exponent w")
        self.w = w

    @classmethod
    def _unchecked(cls, w: Tensor) -> "Polynomial":
        """Construct without checks, for exponents gathered from a vector that has already been checked."""
        schedule = cls.__new__(cls)
        schedule.w = w
        return schedule

    def alpha(self, t: Tensor) -> Tensor:
        return -torch.expm1(self.log_mask_prob(t))

    def mask_prob(self, t: Tensor) -> Tensor:
        checks.times(t)
        return t**self.w

    def log_mask_prob(self, t: Tensor) -> Tensor:
        checks.times(t)
        return self.w * t.log()

    def log_alpha(self, t: Tensor) -> Tensor:
        return log1mexp(self.log_mask_prob(t))

    def dalpha(self, t: Tensor) -> Tensor:
        checks.times(t)
        return -self.w * t ** (self.w - 1)

    def loss_weight(self, t: Tensor) -> Tensor:
        checks.times(t)
        return -self.w / t

    def time(self, alpha: Tensor, mask_prob: Tensor) -> Tensor:
        return (log_of_complement_pair(mask_prob, alpha) / self.w).exp()

    @property
    def time_power(self) -> float:
        """E[weight²] = ∫ (w/t)² t^w dt is a power of 1/t for w < 1; with t = u^(2/w) it is finite."""
        return self.w / 2 if isinstance(self.w, float) and self.w < 1 else 1.0

    def __repr__(self) -> str:
        return f"Polynomial(w={self.w})"


class Geometric(Schedule):
    """α_t = exp(−β̄_t) with β̄_t = β̄min^(1−t) β̄max^t.

    The loss weight is −β̄_t log(β̄max/β̄min)/(exp(β̄_t) − 1). (The paper's Tab. 4 has the ratio inverted after
    its minus sign, which would make the weight positive.) Neither end is reached: α_0 = exp(−β̄min) < 1 and
    α_1 = exp(−β̄max) > 0, so bounds on this schedule include reconstruction and prior terms.
    """

    def __init__(self, beta_min: float = 1e-5, beta_max: float = 20.0):
        checks.positive(beta_min, "β̄min")
        require(
            beta_max > beta_min,
            "β̄max is not above β̄min",
            got=f"β̄min={beta_min}, β̄max={beta_max}",
            allowed="0 < β̄min < β̄max",
            do="the paper uses 1e-5 and 20",
        )
        self.beta_min = beta_min
        self.beta_max = beta_max
        self._log_ratio = math.log(beta_max / beta_min)

    def _beta(self, t: Tensor) -> Tensor:
        checks.times(t)
        return self.beta_min * (t * self._log_ratio).exp()

    def alpha(self, t: Tensor) -> Tensor:
        return (-self._beta(t)).exp()

    def log_alpha(self, t: Tensor) -> Tensor:
        return -self._beta(t)

    def mask_prob(self, t: Tensor) -> Tensor:
        return -torch.expm1(-self._beta(t))

    def dalpha(self, t: Tensor) -> Tensor:
        beta = self._beta(t)
        return -beta * self._log_ratio * (-beta).exp()

    def time(self, alpha: Tensor, mask_prob: Tensor) -> Tensor:
        return (-log_of_complement_pair(alpha, mask_prob) / self.beta_min).log() / self._log_ratio

    def __repr__(self) -> str:
        return f"Geometric(beta_min={self.beta_min}, beta_max={self.beta_max})"


class Cosine(Schedule):
    """α_t = 1 − cos(π/2·(1−t)), loss weight −π/2·tan(π/2·(1−t)).

    Written as α_t = 2 sin²(π/4·(1−t)) and 1 − α_t = sin(π/2·t), which lose no precision at the ends.
    """

    def alpha(self, t: Tensor) -> Tensor:
        mask_prob = self.mask_prob(t)
        return torch.where(mask_prob < 0.5, 1 - mask_prob, 2 * (math.pi / 4 * (1 - t)).sin() ** 2)

    def mask_prob(self, t: Tensor) -> Tensor:
        checks.times(t)
        return (math.pi / 2 * t).sin()

    def dalpha(self, t: Tensor) -> Tensor:
        checks.times(t)
        return -math.pi / 2 * (math.pi / 2 * (1 - t)).sin()

    def time(self, alpha: Tensor, mask_prob: Tensor) -> Tensor:
        early = 2 / math.pi * mask_prob.clamp(max=0.75).asin()
        late = 1 - 4 / math.pi * (alpha / 2).sqrt().asin()
        return torch.where(mask_prob < 0.5, early, late)

    def __repr__(self) -> str:
        return "Cosine()"


class Shifted(Schedule):
    """(1−2ε)α_t + ε for any schedule α: neither end is reached (the form used in the paper's experiments)."""

    def __init__(self, schedule: Schedule, epsilon: float = 1e-4):
        require(
            0 < epsilon < 0.5,
            "shift ε is out of range",
            got=epsilon,
            allowed="0 < ε < 0.5",
            do="the paper uses 1e-4",
        )
        self.schedule = schedule
        self.epsilon = epsilon
        self._scale = 1 - 2 * epsilon

    def alpha(self, t: Tensor) -> Tensor:
        return self._scale * self.schedule.alpha(t) + self.epsilon

    def mask_prob(self, t: Tensor) -> Tensor:
        return self._scale * self.schedule.mask_prob(t) + self.epsilon

    def dalpha(self, t: Tensor) -> Tensor:
        return self._scale * self.schedule.dalpha(t)

    def time(self, alpha: Tensor, mask_prob: Tensor) -> Tensor:
        inner_alpha = ((alpha - self.epsilon) / self._scale).clamp(0, 1)
        inner_mask_prob = ((mask_prob - self.epsilon) / self._scale).clamp(0, 1)
        return self.schedule.time(inner_alpha, inner_mask_prob)

    @property
    def time_power(self) -> float:
        return self.schedule.time_power

    @property
    def per_token(self) -> bool:
        return self.schedule.per_token

    def at(self, tokens: Tensor) -> Schedule:
        return Shifted(self.schedule.at(tokens), self.epsilon)

    def __repr__(self) -> str:
        return f"Shifted({self.schedule!r}, epsilon={self.epsilon})"


class TokenPolynomial(Schedule):
    """GenMD4's vector schedule α_{t,v} = 1 − t^(w_v) (Sec. 6): tokens with large w are masked last and revealed first.

    Functions of time take t [...] and return [..., V]; `at(tokens)` selects each token's own schedule, whose
    functions take times that broadcast against the tokens. Gradients flow to `w`.
    """

    def __init__(self, w: Tensor):
        require(
            w.ndim == 1 and w.is_floating_point(),
            "token weights w have the wrong form",
            got=f"{w.dtype} of shape {tuple(w.shape)}",
            allowed="one float per token, shape (V,)",
            do="pass a vector of floats",
        )
        checks.positive(w, "token weight w")
        self.w = w

    @property
    def per_token(self) -> bool:
        return True

    def time_of(self, masked_share: Tensor) -> Tensor:
        """The time for w = 1: which tokens are masked, and hence the mean of their schedules, is unknown."""
        return masked_share

    def at(self, tokens: Tensor) -> Schedule:
        return Polynomial._unchecked(self.w[tokens.long()])

    def alpha(self, t: Tensor) -> Tensor:
        return self._all_tokens.alpha(t[..., None])

    def mask_prob(self, t: Tensor) -> Tensor:
        return self._all_tokens.mask_prob(t[..., None])

    def log_mask_prob(self, t: Tensor) -> Tensor:
        return self._all_tokens.log_mask_prob(t[..., None])

    def log_alpha(self, t: Tensor) -> Tensor:
        return self._all_tokens.log_alpha(t[..., None])

    def dalpha(self, t: Tensor) -> Tensor:
        return self._all_tokens.dalpha(t[..., None])

    def loss_weight(self, t: Tensor) -> Tensor:
        return self._all_tokens.loss_weight(t[..., None])

    def time(self, alpha: Tensor, mask_prob: Tensor) -> Tensor:
        return self._all_tokens.time(alpha, mask_prob)

    @property
    def _all_tokens(self) -> Polynomial:
        return Polynomial._unchecked(self.w)

    def __repr__(self) -> str:
        return f"TokenPolynomial(V={len(self.w)})"


def exponents(schedule: Schedule) -> Tensor:
    """w of α_t = 1 − t^w: one for all tokens, or one per token [V]."""
    if isinstance(schedule, (Polynomial, TokenPolynomial)):
        return torch.as_tensor(schedule.w)
    fail("the schedule has no exponents", got=repr(schedule), allowed="1 − t^w", do="use polynomial or GenMD4")
