"""Uniform noise: posteriors against matrix products, the bound and the sampler's law against sums over all paths."""

import itertools

import pytest
import torch

from tests.core.laws import chi_square, sequence_counts
from unmask.baselines import UniformSteps
from unmask.core import Linear, Process, Streams, estimate_nelbo, uniform_grid
from unmask.core.uniform_noise import draw_noisy, log_reverse, step_divergence
from unmask.sampling import UNIFORM, Predictor, sample

V, N = 3, 2
PROCESS = Process(Linear(), V)


def matrix(keep):
    """One step that keeps a token with this chance, from rows to columns."""
    return keep * torch.eye(V, dtype=torch.float64) + (1 - keep) / V


def alpha(t):
    return 1 - t


@pytest.mark.parametrize(("s", "t"), [(0.0, 0.3), (0.2, 0.7), (0.5, 1.0)])
def test_posteriors_are_matrix_products(s, t):
    """q(x_s | x_t, x_0) = q(x_t | x_s) q(x_s | x_0) / q(x_t | x_0), for every triple."""
    to_s, step = matrix(alpha(s)), matrix(alpha(t) / alpha(s))
    torch.testing.assert_close(to_s @ step, matrix(alpha(t)))
    for x_0, x_t in itertools.product(range(V), repeat=2):
        expected = to_s[x_0] * step[:, x_t]
        true = torch.nn.functional.one_hot(torch.tensor([x_0]), V).double().log()
        alphas = (torch.tensor([alpha(u)], dtype=torch.float64) for u in (s, t))
        found = log_reverse(torch.tensor([x_t]), true, *alphas).exp()[0]
        torch.testing.assert_close(found, expected / expected.sum(), rtol=1e-9, atol=1e-12)


def test_noise_has_its_law():
    """Fails by chance with at most 1e-6."""
    x = torch.zeros(40_000, 1, dtype=torch.int64)
    found = draw_noisy(x, torch.full((40_000,), 0.4, dtype=torch.float64), V, Streams(0, 40_000))
    assert chi_square(torch.bincount(found[:, 0], minlength=V), matrix(0.4)[0]) > 1e-6


WEIGHTS = torch.randn(V**N, N, V, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def network(x, t, condition=None):
    """Some prediction for every state, which depends on the time too."""
    del condition
    state = (x * torch.tensor([V, 1])).sum(-1)
    return WEIGHTS[state] * (1 + t.double())[:, None, None]


def step_law(states, s, t):
    """p(x_s | x_t) of all states, [V^N, V^N]."""
    time = torch.full((len(states),), t, dtype=torch.float64)
    log_mu = network(states, time).log_softmax(-1)
    alphas = [torch.full((len(states) * N,), alpha(u), dtype=torch.float64) for u in (s, t)]
    each = log_reverse(states.flatten(), log_mu.flatten(0, 1), *alphas).view(len(states), N, V).exp()
    return (each[:, 0, :, None] * each[:, 1, None, :]).flatten(1)


STATES = torch.tensor(list(itertools.product(range(V), repeat=N)))
GRID = uniform_grid(3)


def sampled_law():
    mass = torch.full((V**N,), 1 / V**N, dtype=torch.float64)
    for t, s in itertools.pairwise(GRID.tolist()):
        mass = mass @ step_law(STATES, s, t)
    return mass


def test_the_samplers_law_is_that_of_its_steps():
    """Against all paths; fails by chance with at most 1e-6."""
    predict = Predictor(network, V, family=UNIFORM)
    x = torch.full((40_000, N), V)
    tokens = sample(predict, PROCESS, x, GRID, Streams(0, len(x)), "uniform").tokens
    assert chi_square(sequence_counts(tokens, V), sampled_law()) > 1e-6


def test_a_sample_does_not_depend_on_the_others():
    predict = Predictor(network, V, family=UNIFORM)
    together, alone = torch.full((9, N), V), torch.full((1, N), V)
    many = sample(predict, PROCESS, together, GRID, Streams(3, 9), "uniform").tokens
    one = sample(Predictor(network, V, family=UNIFORM), PROCESS, alone, GRID, Streams(3, torch.tensor([7])), "uniform")
    assert torch.equal(one.tokens[0], many[7])


def test_given_tokens_stay():
    x = torch.tensor([[V, 1]] * 50)
    predict = Predictor(network, V, family=UNIFORM)
    assert (sample(predict, PROCESS, x, GRID, Streams(0, 50), "uniform").tokens[:, 1] == 1).all()


def test_the_bound_is_the_sum_over_steps_and_above_the_truth():
    """Σ_t E KL by enumeration, within five standard errors of the estimate; never below −log p(x)."""
    x_0 = torch.tensor([2, 0])
    true = torch.nn.functional.one_hot(x_0, V).double().log()
    total = torch.zeros((), dtype=torch.float64)
    for t, s in itertools.pairwise(GRID.tolist()):
        mass = (matrix(alpha(t))[x_0[0]][:, None] * matrix(alpha(t))[x_0[1]][None]).flatten()
        alphas = [torch.full((len(STATES) * N,), alpha(u), dtype=torch.float64) for u in (s, t)]
        time = torch.full((len(STATES),), t, dtype=torch.float64)
        log_q = log_reverse(STATES.flatten(), true.repeat(len(STATES), 1), *alphas)
        log_p = log_reverse(STATES.flatten(), network(STATES, time).log_softmax(-1).flatten(0, 1), *alphas)
        kl = torch.where(log_q > -torch.inf, log_q.exp() * (log_q - log_p), 0.0).sum(-1).view(-1, N).sum(1)
        total = total + (mass * kl).sum()
    many = x_0.expand(2000, -1)
    found = estimate_nelbo(network, many, UniformSteps(PROCESS, GRID), draws=3, repeats=4)
    mean, error = found.mean.mean().item(), (found.mean.std() / 2000**0.5).item()
    assert abs(mean - total.item()) < 5 * error
    assert total.item() > -sampled_law()[x_0[0] * V + x_0[1]].log().item()


def divergence(x_0, x_t, log_mu, *alphas):
    """As it is defined."""
    true = torch.nn.functional.one_hot(x_0, log_mu.shape[-1]).to(log_mu.dtype).log()
    log_q, log_p = (log_reverse(x_t, mu, *alphas) for mu in (true, log_mu))
    return torch.where(log_q > -torch.inf, log_q.exp() * (log_q - log_p), 0.0).sum(-1)


@pytest.mark.parametrize("steps", [1, 2, 1000])
@pytest.mark.parametrize("scale", [0.1, 30.0])
def test_the_divergence_of_a_step_is_its_definition(steps, scale):
    """Value and gradient, for every pair of tokens, first and last steps, predictions vague and all but certain."""
    x_0, x_t = torch.cartesian_prod(*[torch.arange(V)] * 2).T
    logits = scale * torch.randn(V * V, V, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    for step in {0, steps // 2, steps - 1}:
        alphas = [torch.full((V * V,), 1 - (step + i) / steps, dtype=torch.float64) for i in (0, 1)]
        ways = [logits.clone().requires_grad_() for _ in range(2)]
        functions = zip((divergence, step_divergence), ways, strict=True)
        values = [function(x_0, x_t, way.log_softmax(-1), *alphas) for function, way in functions]
        torch.testing.assert_close(*values, rtol=1e-8, atol=1e-12)
        grads = [torch.autograd.grad(value.sum(), way)[0] for value, way in zip(values, ways, strict=True)]
        torch.testing.assert_close(*grads, rtol=1e-7, atol=1e-12)


def test_a_bound_of_many_steps_keeps_the_digits_of_float32():
    """T times the divergence of a step of 1/T: as a difference of log-probabilities it was up to 0.07 off."""
    steps, rows = 10_000, 4096
    log_mu = torch.randn(rows, 27, generator=torch.Generator().manual_seed(2)).log_softmax(-1)
    x_0, x_t = torch.randint(27, (2, rows), generator=torch.Generator().manual_seed(3))
    t = torch.rand(rows, generator=torch.Generator().manual_seed(4), dtype=torch.float64) * (1 - 1 / steps) + 1 / steps
    single, double = log_mu.clone().requires_grad_(), log_mu.double().requires_grad_()
    found, exact = (steps * step_divergence(x_0, x_t, mu, 1 - t + 1 / steps, 1 - t) for mu in (single, double))
    torch.testing.assert_close(found.double(), exact, rtol=2e-6, atol=2e-3)
    assert (found - exact).mean().abs() < 1e-6 * exact.mean()
    grads = [torch.autograd.grad(value.sum(), mu)[0].double() for value, mu in ((found, single), (exact, double))]
    assert (grads[0] - grads[1]).norm() < 1e-6 * grads[1].norm()
