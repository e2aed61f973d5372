"""The fast process against the paper's matrices, and the matrices against theory."""

import itertools

import pytest
import torch

from unmask.core import Linear, Process, Streams, TokenPolynomial
from unmask.core.matrices import (
    forward_rate_matrix,
    marginal_matrix,
    reverse_matrix,
    reverse_model_matrix,
    reverse_rate_matrix,
    step_matrix,
    transition_matrix,
    visible_probs,
)

from .laws import SCHEDULES, W, chi_square, column

V = 3
PROCESSES = {name: Process(s, V) for name, s in SCHEDULES.items()} | {"token": Process(TokenPolynomial(W), V)}
every_process = pytest.mark.parametrize("process", PROCESSES.values(), ids=PROCESSES.keys())
TIMES = [(0.1, 0.4), (0.25, 0.9), (0.6, 0.61)]
STATES = torch.arange(V + 1)
IDENTITY = torch.eye(V + 1, dtype=torch.float64)


def assert_close(a, b, tolerance=1e-12):
    torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


@every_process
def test_chapman_kolmogorov(process):
    for s, t in TIMES:
        assert_close(marginal_matrix(process, s) @ transition_matrix(process, s, t), marginal_matrix(process, t))
        middle = (s + t) / 2
        two = transition_matrix(process, s, middle) @ transition_matrix(process, middle, t)
        assert_close(two, transition_matrix(process, s, t))


@every_process
def test_rows_sum(process):
    for s, t in TIMES:
        for matrix in (marginal_matrix(process, t), transition_matrix(process, s, t), reverse_matrix(process, 1, s, t)):
            assert_close(matrix.sum(1), torch.ones(V + 1, dtype=torch.float64))
            assert matrix.min() >= -1e-15
        for rates in (forward_rate_matrix(process, t), reverse_rate_matrix(process, 1, t)):
            assert_close(rates.sum(1), torch.zeros(V + 1, dtype=torch.float64), 1e-10)


@every_process
def test_bayes(process):
    """q(x_s | x_t, x_0) q(x_t | x_0) = q(x_t | x_s) q(x_s | x_0)."""
    for (s, t), x_0 in itertools.product(TIMES, range(V)):
        q_s, q_t = marginal_matrix(process, s)[x_0], marginal_matrix(process, t)[x_0]
        joint_forward = q_s[:, None] * transition_matrix(process, s, t)  # [x_s, x_t]
        joint_backward = q_t[:, None] * reverse_matrix(process, x_0, s, t)  # [x_t, x_s]
        assert_close(joint_forward, joint_backward.T)


@every_process
def test_reverse_rate_is_forward_rate_times_ratio(process):
    """R^{x_0}(t)_{kj} = Q(t)_{jk} q_t(j | x_0)/q_t(k | x_0) off the diagonal, for states k that can occur."""
    for t, x_0 in itertools.product((0.1, 0.5, 0.9), range(V)):
        q_t = marginal_matrix(process, t)[x_0]
        Q, R = forward_rate_matrix(process, t), reverse_rate_matrix(process, x_0, t)
        for k, j in itertools.permutations(range(V + 1), 2):
            if q_t[k] > 0:
                assert_close(R[k, j], Q[j, k] * q_t[j] / q_t[k], 1e-9)


@every_process
def test_rates_are_derivatives_of_the_transitions(process):
    t, step = 0.5, 1e-6
    forward = (transition_matrix(process, t, t + step) - IDENTITY) / step
    backward = (reverse_matrix(process, 2, t - step, t) - IDENTITY) / step
    assert_close(forward_rate_matrix(process, t), forward, 1e-3)
    assert_close(reverse_rate_matrix(process, 2, t), backward, 1e-3)


@every_process
def test_marginal_solves_the_kolmogorov_equation(process):
    t, step = 0.4, 1e-6
    slope = (marginal_matrix(process, t + step) - marginal_matrix(process, t - step)) / (2 * step)
    assert_close(slope, marginal_matrix(process, t) @ forward_rate_matrix(process, t), 1e-6)


def test_discrete_steps_multiply_to_the_continuous_marginal():
    """Π Q_i with β_i = β(t_i)/T tends to Q̄(t) like 1/T."""
    process = Process(Linear(), V)
    errors = []
    for T in (100, 200, 400):
        product = IDENTITY
        for i in range(1, T // 2 + 1):  # up to t = 1/2
            beta = 1 / (1 - i / T)  # β(t) = −α'/α of the linear schedule
            product = product @ step_matrix(beta / T, V)
        errors.append((product - marginal_matrix(process, 0.5)).abs().max().item())
    assert errors[0] / errors[1] == pytest.approx(2, abs=0.1)
    assert errors[1] / errors[2] == pytest.approx(2, abs=0.1)


def all_pairs():
    first, second = torch.cartesian_prod(STATES, STATES).T
    return first[:, None], second[:, None]


@every_process
def test_fast_code_equals_the_matrices(process):
    x_from, x_to = all_pairs()
    for s, t in TIMES:
        time_s, time_t = column(*[s] * len(x_from)), column(*[t] * len(x_from))
        forward = process.log_q_forward(x_to, x_from, time_s, time_t)[:, 0].exp()
        assert_close(forward, transition_matrix(process, s, t).flatten(), 1e-9)
        for v in range(V):
            x_0 = torch.full_like(x_from, v)
            reverse = process.log_q_reverse(x_to, x_from, x_0, time_s, time_t)[:, 0].exp()
            assert_close(reverse, reverse_matrix(process, v, s, t).flatten(), 1e-9)
            q = process.log_q(STATES[:, None], torch.full((V + 1, 1), v), column(*[t] * (V + 1)))[:, 0].exp()
            assert_close(q, marginal_matrix(process, t)[v], 1e-9)
            assert process.alpha(x_0, time_t)[0, 0] == visible_probs(process, t)[v]


@every_process
def test_reverse_model_equals_the_matrices(process):
    logits = torch.tensor([[0.3, -1.0, 2.0]], dtype=torch.float64)
    x_from, x_to = all_pairs()
    masked = int((x_from == process.mask_id).sum())
    for s, t in TIMES:
        time_s, time_t = column(*[s] * len(x_from)), column(*[t] * len(x_from))
        p = process.log_p_reverse(x_to, x_from, logits.expand(masked, -1), time_s, time_t)[:, 0].exp()
        assert_close(p, reverse_model_matrix(process, logits.softmax(-1)[0], s, t).flatten(), 1e-9)


@every_process
def test_draws_follow_the_matrices(process):
    """Frequencies per state against each row, chi-square with false alarm 1e-6 in all; a law 1 % off would show."""
    n, s, t = 400_000, 0.3, 0.6
    time_s, time_t = column(s).expand(n), column(t).expand(n)
    logits = torch.tensor([[0.3, -1.0, 2.0]], dtype=torch.float64)
    level = 1e-6 / 50
    for v in range(V + 1):
        x = torch.full((n, 1), v)
        streams = Streams(v, n)
        drawn = {"forward": (process.draw_forward(x, time_s, time_t, streams), transition_matrix(process, s, t)[v])}
        rows = logits.expand(n if v == V else 0, -1)
        model = reverse_model_matrix(process, logits.softmax(-1)[0], s, t)[v]
        drawn["model"] = (process.draw_reverse(x, rows, time_s, time_t, streams), model)
        if v < V:
            drawn["marginal"] = (process.draw_x_t(x, time_t, streams), marginal_matrix(process, t)[v])
            mask = torch.full_like(x, V)
            posterior = process.draw_posterior(mask, x, time_s, time_t, streams)
            drawn["posterior"] = (posterior, reverse_matrix(process, v, s, t)[V])
        for name, (states, law) in drawn.items():
            counts = torch.bincount(states[:, 0], minlength=V + 1)
            possible = law > 0
            assert counts[~possible].sum() == 0, name
            if possible.sum() > 1:
                assert chi_square(counts[possible], law[possible]) > level, name


class Given:
    """Streams of one sample that give these uniforms, then halves."""

    def __init__(self, u):
        self.u = [u]

    def __len__(self):
        return 1

    def uniform(self, *shape):
        return (self.u.pop() if self.u else torch.full(shape, 0.5, dtype=torch.float64)).view(1, *shape)


@pytest.mark.parametrize("steps", [2, 1_000, 1_000_000])
def test_fine_grids_keep_the_chance_to_reveal(steps):
    """float32 logits and a schedule for each token: the chance lies within 1e-5 of its float64 value, of 1e-6 too."""
    rows, vocab_size, t = 300, 50, column(0.5)
    s = t - 0.5 / steps
    process = Process(TokenPolynomial(torch.linspace(0.5, 2.0, vocab_size, dtype=torch.float64)), vocab_size)
    logits = 3 * torch.randn(rows, vocab_size, generator=torch.Generator().manual_seed(0))
    x_t = torch.full((1, rows), vocab_size)
    chance = process.unmask_prob(torch.arange(vocab_size)[None], s, t)
    exact = (logits.double().softmax(-1) * chance).sum(-1)
    revealed = [
        process.draw_reverse(x_t, logits, s, t, Given(exact * nearly)) < vocab_size for nearly in (1 - 1e-5, 1 + 1e-5)
    ]
    assert revealed[0].all()
    assert not revealed[1].any()
    largest = torch.full((rows,), 1 - 2.0**-53, dtype=torch.float64)
    assert (process.draw_reverse(x_t, logits, 0 * t, t, Given(largest)) < vocab_size).all()  # the last step leaves none


def test_any_shape_and_padding():
    process, shape = Process(Linear(), 5), (6, 2, 3, 4)
    x_0 = (Streams(0, 6).uniform(2, 3, 4) * 5).long()
    valid = Streams(1, 6).uniform(2, 3, 4) < 0.7
    t = column(0.0, 0.3, 0.5, 0.7, 0.9, 1.0)
    mask = process.draw_mask(x_0, t, Streams(2, 6), valid)
    assert mask.shape == shape
    assert not (mask & ~valid).any()
    assert not mask[0].any()
    assert torch.equal(mask[5], valid[5])
    x_t = process.draw_x_t(x_0, t, Streams(2, 6), valid)
    assert torch.equal(x_t, torch.where(mask, 5, x_0))
    x_s = process.draw_reverse(x_t, torch.zeros(int(mask.sum()), 5), t / 2, t, Streams(3, 6))
    assert torch.equal(x_s[x_t != 5], x_t[x_t != 5])
