"""Every form of the bound as a finite sum, over all masks and with a quadrature rule instead of random times.

For one sequence x_0 [N] of a few tokens, each function enumerates all evaluations that an estimator would
draw from, as a `Draw` whose weights include their probabilities. Summing the objective over its rows
(`exact_nelbo`) gives the bound itself rather than an estimate, differentiable in the schedule's weights.
"""

import math

import torch
from torch import Tensor

from ..grid import check_grid
from ..objective import Draw, Nelbo, Objective, RaceDraw, TokenDraw, nelbo, prior, reconstruction
from ..process import Denoiser, Process
from ..schedule import exponents


def exact_nelbo(denoiser: Denoiser, x_0: Tensor, draw: Draw, process: Process, objective: Objective = nelbo) -> Nelbo:
    """Sum the objective over the rows of an enumerated draw: the parts of the NELBO of one sequence x_0 [N]."""
    x = x_0.expand(len(draw.t), -1)
    logits = denoiser(process.hide(x, draw.mask), draw.t)
    parts = objective(logits[draw.mask], x, draw)
    return Nelbo(parts.diffusion.sum(), parts.reconstruction.sum(), parts.prior.sum())


def continuous_time(process: Process, x_0: Tensor, nodes: int = 160) -> Draw:
    """∫_0^1 −α'_t/(1−α_t) Σ_M q(M | x_0, t) … dt, Eq. (5)."""
    t, dt = tanh_sinh(nodes)
    return _enumerate(process, x_0, t, -dt * process.schedule.loss_weight(t), first=0.0, last=1.0)


def log_snr(process: Process, x_0: Tensor, low: float = -40.0, high: float = 40.0, nodes: int = 240) -> Draw:
    """∫ σ(λ) Σ_M q(M | x_0, λ) … dλ over the log-SNRs that the schedule reaches (Sec. 3)."""
    schedule = process.schedule
    reached = schedule.log_snr(torch.tensor([1.0, 0.0], dtype=torch.float64)).tolist()
    low, high = max(low, reached[0]), min(high, reached[1])
    u, du = gauss_legendre(nodes)
    value = low + (high - low) * u
    first, last = schedule.inverse_log_snr(torch.tensor([high, low], dtype=torch.float64)).tolist()
    weight = du * (high - low) * torch.sigmoid(value)
    return _enumerate(process, x_0, schedule.inverse_log_snr(value), weight, first=first, last=last)


def exact_k(process: Process, x_0: Tensor) -> Draw:
    """Σ_k (1/N) Σ_{|M|=k} (N/k)/C(N,k) …: independent of schedule and time; for denoisers that ignore time."""
    del process
    masks = all_masks(len(x_0))[1:]
    k = masks.sum(1)
    subsets = torch.tensor([math.comb(len(x_0), int(i)) for i in k], dtype=torch.float64)
    zero = torch.zeros(len(masks), dtype=torch.float64)
    return Draw(zero + 0.5, masks, 1 / (k * subsets), zero, zero, zero)


def steps(process: Process, x_0: Tensor, grid: Tensor) -> Draw:
    """Σ_i (α_s−α_t)/(1−α_t) Σ_M q(M | x_0, t(i)) …: the T-step bound with its end terms."""
    check_grid(grid)
    t, s = grid[:-1], grid[1:]
    weight = process.schedule.unmask_prob(s, t)
    return _enumerate(process, x_0, t, weight, first=grid[-1].item(), last=grid[0].item())


def token_continuous_time(process: Process, x_0: Tensor, nodes: int = 160) -> TokenDraw:
    """GenMD4's ∫_0^1 Σ_M q(M | x_0, t) … dt, Eq. (12), for `generalized_nelbo`."""
    t, dt = tanh_sinh(nodes)
    return TokenDraw(**vars(_enumerate(process, x_0, t, dt, first=0.0, last=1.0)))


def token_exact_k(process: Process, x_0: Tensor) -> RaceDraw:
    """GenMD4's sum over the sets M of its race, P(M)/W_M, for `TokenExactK` and denoisers that ignore time.

    M remains when a token n is revealed: P(M) = Σ_{n∉M} P(M ∪ {n}) w_n / W_{M∪{n}}, starting with all tokens masked.
    """
    masks = all_masks(len(x_0))
    w = exponents(process.schedule.at(x_0))
    total = (masks * w).sum(1)
    bit = [1 << i for i in reversed(range(len(x_0)))]  # what a token adds to the index of a mask
    reached = [total.new_ones(())] * len(masks)
    for i in reversed(range(len(masks) - 1)):
        appears = [(n, i + bit[n]) for n, masked in enumerate(masks[i]) if not masked]
        reached[i] = torch.stack([reached[before] * w[n] / total[before] for n, before in appears]).sum()
    zero = torch.zeros(len(masks) - 1, dtype=torch.float64)
    return RaceDraw(zero + 0.5, masks[1:], torch.stack(reached)[1:] / total[1:], zero, zero, zero)


def token_steps(process: Process, x_0: Tensor, grid: Tensor) -> TokenDraw:
    """GenMD4's sum over the steps of a grid, for `generalized_steps_nelbo`."""
    check_grid(grid)
    t, s = grid[:-1], grid[1:]
    draw = _enumerate(process, x_0, t, torch.ones_like(t), first=grid[-1].item(), last=grid[0].item())
    return TokenDraw(**vars(draw), s=s.repeat_interleave(2 ** len(x_0)))


def all_masks(length: int) -> Tensor:
    """All 2^N masks, starting with the empty one."""
    return torch.cartesian_prod(*[torch.tensor([False, True])] * length).reshape(-1, length)


def tanh_sinh(nodes: int) -> tuple[Tensor, Tensor]:
    """Nodes and weights on (0, 1), ∫ f ≈ Σ f(t_i) w_i, which tolerate integrable singularities at 0.

    t = 1/(1 + exp(−π sinh v)) for equally spaced v, so nodes come as close to 0 as floating point can represent.
    """
    v = torch.linspace(-5.2, 3.1, nodes, dtype=torch.float64)
    z = math.pi * v.sinh()
    t = torch.sigmoid(z)
    weight = (v[1] - v[0]) * math.pi * v.cosh() * t * torch.sigmoid(-z)
    return t, weight


def gauss_legendre(nodes: int) -> tuple[Tensor, Tensor]:
    """Nodes and weights on (0, 1) for smooth integrands: eigenvalues of the Jacobi matrix (Golub and Welsch)."""
    i = torch.arange(1, nodes, dtype=torch.float64)
    off_diagonal = i / (4 * i**2 - 1).sqrt()
    x, vectors = torch.linalg.eigh(torch.diag(off_diagonal, 1) + torch.diag(off_diagonal, -1))
    return (1 + x) / 2, vectors[0] ** 2


def _enumerate(process: Process, x_0: Tensor, t: Tensor, weight: Tensor, *, first: float, last: float) -> Draw:
    """All (time, mask) pairs, each weighted by its time's weight and its mask's probability."""
    masks = all_masks(len(x_0))
    time = t.repeat_interleave(len(masks))
    mask = masks.repeat(len(t), 1)
    x = x_0.expand(len(time), -1)
    probability = _mask_probability(process, x, mask, time)
    zero = torch.zeros(len(time), dtype=torch.float64)
    once = torch.cat([zero.new_ones(1), zero[1:]])  # the end terms are counted once, not once per row
    return Draw(
        t=time,
        mask=mask,
        weight=weight.repeat_interleave(len(masks)) * probability,
        control=zero,
        reconstruction=once * reconstruction(process, x_0[None], first),
        prior=once * prior(process, x_0[None], last),
    )


def _mask_probability(process: Process, x: Tensor, mask: Tensor, time: Tensor) -> Tensor:
    """q(mask | x, t) = Π (1−α) Π α, as a product so that factors of 0 keep finite gradients."""
    return torch.where(mask, process.mask_prob(x, time), process.alpha(x, time)).prod(1)
