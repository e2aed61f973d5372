"""The oracle itself: its two implementations against each other, against brute force, and its samples."""

import pytest
import torch

from unmask.core import Linear, Process, Streams, TokenPolynomial
from unmask.core.exact import MarkovLaw, TableLaw
from unmask.core.exact.forms import all_masks, gauss_legendre, tanh_sinh

from .laws import W, chi_square, column, sequence_counts

CHAIN = MarkovLaw.random(3, seed=5)
LENGTH = 4


def chain_as_table():
    x = torch.cartesian_prod(*[torch.arange(3)] * LENGTH)
    return TableLaw(CHAIN.log_prob(x).exp().view([3] * LENGTH))


def brute_force_posterior(law, process, x_t, t):
    """P(x^(n) = v | x_t) ∝ Σ_x p(x) q(x_t | x) 1{x^(n) = v}, straight from the definition."""
    x = law.sequences()
    joint = law.log_prob(x).exp() * process.log_q(x_t.expand(len(x), -1), x, column(t).expand(len(x))).sum(1).exp()
    onehot = torch.nn.functional.one_hot(x, law.vocab_size).double()
    marginals = (joint[:, None, None] * onehot).sum(0)
    return marginals / marginals.sum(1, keepdim=True)


@pytest.mark.parametrize("schedule", [Linear(), TokenPolynomial(W)], ids=["scalar", "token"])
@pytest.mark.parametrize("law", [chain_as_table(), TableLaw.random(3, LENGTH, seed=2)], ids=["chain", "random"])
def test_denoiser_is_the_posterior(law, schedule):
    process, t = Process(schedule, 3), 0.3
    x_0 = torch.tensor([2, 0, 1, 1])
    for mask in all_masks(LENGTH):
        x_t = process.hide(x_0, mask)
        mu = law.denoiser(process)(x_t[None], column(t)).softmax(-1)[0]
        torch.testing.assert_close(mu, brute_force_posterior(law, process, x_t, t), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("schedule", [Linear(), TokenPolynomial(W)], ids=["scalar", "token"])
def test_forward_backward_equals_enumeration(schedule):
    process, table = Process(schedule, 3), chain_as_table()
    x_t = torch.where(all_masks(LENGTH), 3, torch.tensor([2, 0, 1, 1]))
    t = torch.linspace(1e-3, 1, len(x_t), dtype=torch.float64)
    torch.testing.assert_close(CHAIN.denoiser(process)(x_t, t), table.denoiser(process)(x_t, t), rtol=1e-9, atol=1e-9)
    assert CHAIN.entropy(LENGTH) == pytest.approx(table.entropy(), abs=1e-12)


def test_scalar_posterior_ignores_time():
    process = Process(Linear(), 3)
    x_t, t = torch.tensor([[3, 0, 3, 3]]).expand(2, -1), column(1e-9, 0.9)
    mu = CHAIN.denoiser(process)(x_t, t)
    torch.testing.assert_close(mu[0], mu[1])


@pytest.mark.parametrize("law", [CHAIN, TableLaw.random(3, LENGTH, seed=2)], ids=["chain", "table"])
def test_samples_follow_the_law(law):
    """100,000 draws over 81 sequences, chi-square with false alarm 1e-6."""
    x = law.draw(LENGTH, Streams(0, 100_000))
    sequences = torch.cartesian_prod(*[torch.arange(3)] * LENGTH)
    assert chi_square(sequence_counts(x, 3), law.log_prob(sequences).exp()) > 1e-6


def test_long_chain_does_not_underflow():
    law = MarkovLaw.random(27, seed=0)
    process, x_0 = Process(TokenPolynomial(torch.linspace(0.5, 3, 27).double()), 27), law.draw(2000, Streams(0, 1))
    mask = Streams(1, 1).uniform(2000) < 0.8
    mu = law.denoiser(process)(process.hide(x_0, mask), column(1e-4))
    assert torch.isfinite(mu[mask]).all()
    torch.testing.assert_close(mu.exp().sum(-1), torch.ones(1, 2000, dtype=torch.float64))


def test_quadrature_rules():
    t, w = tanh_sinh(160)
    for power in (-0.9, -0.5, 0.0, 3.0):
        assert (w * t**power).sum().item() == pytest.approx(1 / (1 + power), rel=1e-10)
    u, w = gauss_legendre(20)
    for power in range(40):
        assert (w * u**power).sum().item() == pytest.approx(1 / (1 + power), rel=1e-12)
