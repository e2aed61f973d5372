"""Small functions that keep their digits."""

import torch
from torch import Tensor

_LARGE = 20.0
"""A shift whose exponential is still far from the end of float32."""


def log1mexp(x: Tensor) -> Tensor:
    """log(1 − e^x) for x ≤ 0, accurate near 0 and for very negative x, with finite gradients inside."""
    near_zero = (-torch.expm1(x.clamp(min=-1.0))).log()
    far = torch.log1p(-x.clamp(max=-0.5).exp())
    return torch.where(x > -0.6931471805599453, near_zero, far)


def log_of_complement_pair(p: Tensor, q: Tensor) -> Tensor:
    """log p for p + q = 1, both given to full relative precision."""
    return torch.where(p < 0.5, p.log(), torch.log1p(-q))


def log_mean_exp(logits: Tensor, shift: Tensor) -> Tensor:
    """log Σ_v μ_v e^(shift_v) for μ = softmax(logits) over the last axis, accurate where it is near 0 as well.

    Shifts of the size of 1/T would leave the difference of two log-sums only the digits that float32 has below it.
    """
    change = (logits.softmax(-1) * torch.expm1(shift.clamp(max=_LARGE))).sum(-1)
    near_zero = (change.abs() < 0.5) & (shift.amax(-1) <= _LARGE)
    far = (logits + shift).logsumexp(-1) - logits.logsumexp(-1)
    return torch.where(near_zero, torch.log1p(change.where(near_zero, 0.0)), far)


def softmax_dtype(logits: Tensor) -> torch.dtype:
    """Softmax and losses are never taken below float32; float64 stays float64."""
    return torch.float64 if logits.dtype == torch.float64 else torch.float32
