"""Uniform noise instead of masks (multinomial diffusion, D3PM): a token stays with probability α_t, else is redrawn.

q(x_t | x_0) = α_t δ(x_t, x_0) + (1−α_t)/V, and a step keeps a token with probability α_t/α_s. For a prediction μ,

    p(x_s = j | x_t = i) ∝ [α_t/α_s δ_ij + (1 − α_t/α_s)/V] · [α_s μ_j + (1−α_s)/V],

which is q(x_s | x_t, x_0) if μ puts all mass on x_0.
"""

import torch
from torch import Tensor

from .streams import Streams


def draw_noisy(x_0: Tensor, alpha: Tensor, vocab_size: int, streams: Streams) -> Tensor:
    """x_t ~ q(x_t | x_0) for given α_t [B]."""
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


def step_divergence(x_0: Tensor, x_t: Tensor, log_mu: Tensor, alpha_s: Tensor, alpha_t: Tensor) -> Tensor:
    """KL(q(x_s | x_t, x_0) ‖ p(x_s | x_t)) for each row [R], to the precision of log μ [R, V] however small the step.

    With A_j = α_s μ_j + (1−α_s)/V, Z = α_t μ_i + (1−α_t)/V at i = x_t, and A°, Z° the same for the true x_0, it is
    Σ_j q_j log(A°_j Z / A_j Z°). Almost all of q is at j = i, where A° Z − A Z° = (α_s−α_t)/V · (δ(i, x_0) − μ_i): as a
    difference of logarithms this term would be lost to rounding, and the bound multiplies it by T.
    """

    def column(value: Tensor) -> Tensor:
        return value.to(log_mu.dtype)[:, None]

    vocab_size, x_0, x_t = log_mu.shape[-1], x_0.long()[:, None], x_t.long()[:, None]
    drop = column((alpha_s - alpha_t) / vocab_size)  # before it is rounded
    reached = alpha_s.clamp(min=torch.finfo(alpha_s.dtype).tiny)
    kept, jump, noise = column(alpha_t / reached), drop / column(reached), column((1 - alpha_s) / vocab_size)
    same, log_mu_here = (x_t == x_0).to(log_mu.dtype), log_mu.gather(1, x_t)
    log_before = torch.logaddexp(log_mu + column(alpha_s).log(), noise.log())
    log_total = torch.logaddexp(log_mu_here + column(alpha_t).log(), column((1 - alpha_t) / vocab_size).log())
    true_before = noise.expand_as(log_mu).scatter_add(1, x_0, column(alpha_s))
    true_total = same * column(alpha_t) + column((1 - alpha_t) / vocab_size)

    apart = true_before.log() - log_before + log_total - true_total.log()
    leaves = (true_before * jump / true_total).scatter(1, x_t, 0.0)
    stays = true_before.gather(1, x_t) * (kept + jump) / true_total
    before_here = torch.where(noise > 0, log_before.gather(1, x_t).exp(), 1.0)
    near = (same - log_mu_here.exp()) * drop / (before_here * true_total)
    small = (noise > 0) & (near > -0.5)
    here = torch.where(small, torch.log1p(near.where(small, 0.0)), apart.gather(1, x_t))
    return torch.where(leaves > 0, leaves * apart, 0.0).sum(-1) + torch.where(stays > 0, stays * here, 0.0)[:, 0]
