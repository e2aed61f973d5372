"""Small numerically accurate functions."""

import torch
from torch import Tensor

_LARGE = 20.0
"""A shift whose exponential is still far from overflow in float32."""


def log1mexp(x: Tensor) -> Tensor:
    """log(1 − e^x) for x ≤ 0, accurate near 0 and for very negative x, with finite gradients inside."""
    near_zero = (-torch.expm1(x.clamp(min=-1.0))).log()
    far = torch.log1p(-x.clamp(max=-0.5).exp())
    return torch.where(x > -0.6931471805599453, near_zero, far)


def log_of_complement_pair(p: Tensor, q: Tensor) -> Tensor:
    """log p for p + q = 1, both given to full relative precision."""
    return torch.where(p < 0.5, p.log(), torch.log1p(-q))


def log_mean_exp(logits: Tensor, shift: Tensor) -> Tensor:
    """log Σ_v μ_v e^(shift_v) for μ = softmax(logits) over the last axis, also accurate where it is near 0.

    For shifts of order 1/T, most digits of a difference of two float32 log-sums would cancel.
    """
    change = (logits.softmax(-1) * torch.expm1(shift.clamp(max=_LARGE))).sum(-1)
    near_zero = (change.abs() < 0.5) & (shift.amax(-1) <= _LARGE)
    far = (logits + shift).logsumexp(-1) - logits.logsumexp(-1)
    return torch.where(near_zero, torch.log1p(change.where(near_zero, 0.0)), far)


def softmax_dtype(logits: Tensor) -> torch.dtype:
    """The dtype of softmax and losses: never below float32, and float64 stays float64."""
    return torch.float64 if logits.dtype == torch.float64 else torch.float32
