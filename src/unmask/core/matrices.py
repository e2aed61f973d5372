"""The paper's matrix forms for small V: the readable reference that the fast code is tested against.

Rows are "from", columns are "to", and the mask is the last state. A scalar schedule is the case α_{t,v} = α_t.
"""

import torch
from torch import Tensor

from .process import Process


def visible_probs(process: Process, t: float) -> Tensor:
    """The vector α_t over the V+1 states; the mask is never left, so its own entry is arbitrary and set to 1."""
    time = torch.tensor([t], dtype=torch.float64)
    tokens = torch.arange(process.vocab_size)[None]
    return torch.cat([process.alpha(tokens, time)[0], torch.ones(1, dtype=torch.float64)])


def step_matrix(beta: float, vocab_size: int) -> Tensor:
    """Q_i = (1−β_i) I + β_i 1 e_mᵀ: one step of the discrete-time process (Sec. 2)."""
    return (1 - beta) * _identity(vocab_size) + beta * _to_mask(vocab_size)


def marginal_matrix(process: Process, t: float) -> Tensor:
    """Q̄(t) = diag(α_t) + (I − diag(α_t)) 1 e_mᵀ, so that q(x_t | x_0) = x_0ᵀ Q̄(t) x_t, Eq. (1)."""
    return _keep_or_mask(visible_probs(process, t))


def transition_matrix(process: Process, s: float, t: float) -> Tensor:
    """Q̄(s, t) = Q̄(s)⁻¹ Q̄(t) = diag(α_t/α_s) + (I − diag(α_t/α_s)) 1 e_mᵀ."""
    return _keep_or_mask(visible_probs(process, t) / visible_probs(process, s))


def reverse_matrix(process: Process, x_0: int, s: float, t: float) -> Tensor:
    """R̄^{x_0}(t, s) = I + (α_s−α_t)/(1−α_t) e_m (x_0 − e_m)ᵀ: q(x_s | x_t, x_0)."""
    alpha_s, alpha_t = visible_probs(process, s)[x_0], visible_probs(process, t)[x_0]
    return _identity(process.vocab_size) + (alpha_s - alpha_t) / (1 - alpha_t) * _mask_to(x_0, process.vocab_size)


def forward_rate_matrix(process: Process, t: float) -> Tensor:
    """Q(t) = β(t)(1 e_mᵀ − I) with β(t) = −α'_t/α_t, Eq. (7); for a vector schedule diag(β(t))(1 e_mᵀ − I)."""
    time = torch.tensor([t], dtype=torch.float64)
    schedule = process.schedule.at(torch.arange(process.vocab_size))
    beta = (-schedule.dalpha(time) / schedule.alpha(time)).expand(process.vocab_size)
    beta = torch.cat([beta, torch.zeros(1, dtype=torch.float64)])
    return beta[:, None] * (_to_mask(process.vocab_size) - _identity(process.vocab_size))


def reverse_rate_matrix(process: Process, x_0: int, t: float) -> Tensor:
    """R^{x_0}(t) = −α'_t/(1−α_t) e_m (x_0 − e_m)ᵀ, Eq. (8)."""
    schedule = process.schedule.at(torch.tensor(x_0))
    rate = -schedule.loss_weight(torch.tensor(t, dtype=torch.float64))
    return rate * _mask_to(x_0, process.vocab_size)


def reverse_model_matrix(process: Process, mu: Tensor, s: float, t: float) -> Tensor:
    """p(x_s | x_t) for a prediction μ [V]: Σ_v μ_v R̄^{v}(t, s), Eq. (2) and (11)."""
    return sum((mu[v] * reverse_matrix(process, v, s, t) for v in range(process.vocab_size)), start=torch.zeros(()))


def _identity(vocab_size: int) -> Tensor:
    return torch.eye(vocab_size + 1, dtype=torch.float64)


def _to_mask(vocab_size: int) -> Tensor:
    """1 e_mᵀ: every state goes to the mask."""
    matrix = torch.zeros(vocab_size + 1, vocab_size + 1, dtype=torch.float64)
    matrix[:, -1] = 1
    return matrix


def _mask_to(x_0: int, vocab_size: int) -> Tensor:
    """e_m (x_0 − e_m)ᵀ: in the row of the mask, move mass from the mask to x_0."""
    matrix = torch.zeros(vocab_size + 1, vocab_size + 1, dtype=torch.float64)
    matrix[-1, x_0], matrix[-1, -1] = 1, -1
    return matrix


def _keep_or_mask(keep: Tensor) -> Tensor:
    matrix = torch.diag(keep)
    matrix[:, -1] += 1 - keep
    return matrix
