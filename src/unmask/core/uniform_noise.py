"""Uniform noise instead of masks (multinomial diffusion, D3PM): a token stays with α_t, else it is any token at all.

q(x_t | x_0) = α_t δ(x_t, x_0) + (1−α_t)/V, and a step keeps a token with α_t/α_s. Given a prediction μ of x_0,

    p(x_s = j | x_t = i) ∝ [α_t/α_s δ_ij + (1 − α_t/α_s)/V] · [α_s μ_j + (1−α_s)/V],

which is q(x_s | x_t, x_0) where μ puts everything on x_0.
"""

import torch
from torch import Tensor

from .streams import Streams


def draw_noisy(x_0: Tensor, alpha: Tensor, vocab_size: int, streams: Streams) -> Tensor:
    """x_t ~ q(x_t | x_0) at the visible share α [B]."""
    stays, other = streams.uniform(*x_0.shape[1:]), streams.uniform(*x_0.shape[1:])
    column = alpha.reshape(-1, *[1] * (x_0.ndim - 1))
    return torch.where(stays < column, x_0, (other * vocab_size).long().to(x_0.dtype))


def log_reverse(x_t: Tensor, log_mu: Tensor, alpha_s: Tensor, alpha_t: Tensor) -> Tensor:
    """log p(x_s = · | x_t) [R, V] of tokens x_t [R] with predictions log μ [R, V]; α_s ≥ α_t [R]."""
    vocab_size = log_mu.shape[-1]
    alpha_s, alpha_t = alpha_s.to(log_mu.dtype)[:, None], alpha_t.to(log_mu.dtype)[:, None]
    kept = alpha_t / alpha_s.clamp(min=torch.finfo(log_mu.dtype).tiny)
    before = torch.logaddexp(alpha_s.log() + log_mu, ((1 - alpha_s) / vocab_size).log())
    moved = ((1 - kept) / vocab_size).expand_as(log_mu).scatter_add(1, x_t.long()[:, None], kept)
    return (before + moved.log()).log_softmax(-1)
