"""Small distributions with exact denoisers, and the exact distribution of a T-step sampler by enumeration."""

import itertools
import math

import torch
from torch.nn.functional import one_hot

from unmask.core import Linear, Process, TokenPolynomial
from unmask.core.exact import MarkovLaw, TableLaw

N, V = 3, 2
TABLE = TableLaw(torch.tensor([[[0.25, 0.05], [0.02, 0.18]], [[0.10, 0.15], [0.05, 0.20]]]))
"""Three dependent bits."""
SCALAR = Process(Linear(), V)
TOKENS = Process(TokenPolynomial(torch.tensor([0.6, 2.2], dtype=torch.float64)), V)


def chain(vocab_size=4, seed=0):
    """A Markov chain in which neighbours are strongly dependent."""
    generator = torch.Generator().manual_seed(seed)
    rows = torch.rand(vocab_size + 1, vocab_size, generator=generator, dtype=torch.float64) ** 3
    rows = rows / rows.sum(-1, keepdim=True)
    return MarkovLaw(rows[0], rows[1:])


def outcomes(law=TABLE):
    """All sequences in lexicographic order, and their probabilities."""
    x = torch.tensor(list(itertools.product(range(V), repeat=N)))
    return x, law.log_prob(x).exp()


def disagreeing(x, t, condition=None):
    """A denoiser whose predictions belong to no distribution: the joint probability depends on the order.

    A bit repeats the previous one in 9 of 10 cases if that is visible, and is a fair coin if not; the first bit is 1 in
    9 of 10 cases if the second is visible.
    """
    del t, condition
    sign = torch.tensor([-1.0, 1.0, 0.0], dtype=torch.float64)
    known = torch.cat([(x[:, 1:2] != V).double(), sign[x[:, :-1]]], 1)
    return torch.stack([torch.zeros_like(known), math.log(9) * known], -1)


def law_with_steps(process, denoiser, grid, chance=None, hide=None):
    """The probabilities of all sequences under a sampler that steps along the grid, by summing over all paths.

    chance(s, t): probability that a masked position is revealed, if not the process's own; hide(s, t): probability
    that a revealed one is masked again; what is masked at the end is drawn in one additional step.
    """
    states = torch.tensor(list(itertools.product(range(V + 1), repeat=N)))
    mass = torch.zeros(len(states), dtype=torch.float64)
    mass[-1] = 1
    itself, hidden_again = (one_hot(x, V + 1).double() for x in (states, torch.full_like(states, V)))
    for t, s in [*itertools.pairwise(grid.tolist()), (grid[-1].item(), None)]:
        now = torch.full((len(states),), float(t), dtype=torch.float64)
        log_mu = denoiser(states, now).log_softmax(-1)
        if s is None:
            stay, reveal, hidden = torch.zeros(states.shape), log_mu.exp(), torch.zeros(1)
        else:
            then = torch.full_like(now, float(s))
            stay, reveal = kernel(process, log_mu, then, now, chance)
            hidden = torch.zeros(1) if hide is None else hide(then, now)
        masked = torch.cat([reveal, stay[..., None]], -1)
        visible = torch.lerp(itself, hidden_again, hidden[:, None, None].double())
        step = torch.where((states == V)[..., None], masked, visible)  # [S, N, V+1]
        mass = mass @ torch.stack([step[:, n, states[:, n]] for n in range(N)]).prod(0)
    return mass.view([V + 1] * N)[:V, :V, :V].flatten()


def law_in_order(denoiser):
    """The chain rule from left to right, Π_n μ_n(x_n | x_<n)."""
    x, product = outcomes()[0], 1.0
    for n in range(N):
        shown = x.masked_fill(torch.arange(N) >= n, V)
        product = product * denoiser(shown, torch.full((len(x),), 0.5)).softmax(-1)[torch.arange(len(x)), n, x[:, n]]
    return product


def law_of_race(w, denoiser):
    """The same without steps, for a denoiser that ignores time: (n, v) is next with chance μ_nv w_v / Σ."""
    states = list(itertools.product(range(V + 1), repeat=N))
    mu = denoiser(torch.tensor(states), torch.full((len(states),), 0.5)).softmax(-1) * w
    mass = dict.fromkeys(states, 0.0) | {(V,) * N: 1.0}
    for state in sorted(states, key=lambda state: -state.count(V)):
        masked = [n for n in range(N) if state[n] == V]
        rates = mu[states.index(state)]
        for n, v in itertools.product(masked, range(V)):
            mass[*state[:n], v, *state[n + 1 :]] += mass[state] * (rates[n, v] / rates[masked].sum()).item()
    return torch.tensor([mass[state] for state in states], dtype=torch.float64).view([V + 1] * N)[:V, :V, :V].flatten()


def kernel(process, log_mu, s, t, chance):
    """(chance to stay masked [S, N], to become each token [S, N, V]) for every state and position."""
    mu = log_mu.exp()
    if process.schedule.per_token:
        vocabulary = torch.arange(V)
        p = process.schedule.at(vocabulary).unmask_prob(s[:, None], t[:, None])[:, None]
    else:
        p = (chance or process.schedule.unmask_prob)(s, t)[:, None, None].expand(-1, 1, V)
    reveal = mu * p
    return 1 - reveal.sum(-1), reveal
