"""Small functions that keep their digits."""

import torch
from torch import Tensor


def log1mexp(x: Tensor) -> Tensor:
    """log(1 − e^x) for x ≤ 0, accurate near 0 and for very negative x, with finite gradients inside."""
    near_zero = (-torch.expm1(x.clamp(min=-1.0))).log()
    far = torch.log1p(-x.clamp(max=-0.5).exp())
    return torch.where(x > -0.6931471805599453, near_zero, far)


def log_of_complement_pair(p: Tensor, q: Tensor) -> Tensor:
    """log p for p + q = 1, both given to full relative precision."""
    return torch.where(p < 0.5, p.log(), torch.log1p(-q))


def softmax_dtype(logits: Tensor) -> torch.dtype:
    """Softmax and losses are never taken below float32; float64 stays float64."""
    return torch.float64 if logits.dtype == torch.float64 else torch.float32
