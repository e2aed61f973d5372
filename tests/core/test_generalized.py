"""GenMD4's identities and gradients, against full enumeration."""

import math
from functools import partial

import mpmath
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from unmask.core import (
    Draw,
    Linear,
    Polynomial,
    Process,
    Streams,
    TokenDraw,
    TokenPolynomial,
    TokenSteps,
    TokenTime,
    generalized_nelbo,
    generalized_steps_nelbo,
    log_q_mask,
    nelbo,
    rloo,
    uniform_grid,
)
from unmask.core.exact import TableLaw, exact_nelbo, token_continuous_time, token_steps
from unmask.core.exact.forms import all_masks, tanh_sinh
from unmask.core.numeric import log_mean_exp

from .laws import W, column

LAW = TableLaw.random(3, 3, seed=1)
X_0 = torch.tensor([2, 0, 1])


def as_draw(t, mask, weight, s=None):
    zero = torch.zeros_like(weight)
    return TokenDraw(t, mask, weight, zero, zero, zero, s=s)


def as_scalar_draw(t, mask, weight):
    zero = torch.zeros_like(weight)
    return Draw(t, mask, weight, zero, zero, zero)


def toy_network(theta, x_t, t):
    """Logits [B, 3, 3] from a context sum, the time and nine parameters."""
    context = torch.nn.functional.one_hot(x_t, 4).double().sum(1)  # [B, 4]
    return (context[:, :3, None] * theta).sum(1)[:, None, :] + torch.sin(t)[:, None, None] * theta[0] * torch.arange(
        3
    ).double()[:, None]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("w", [1.0, 0.7, 3.0])
def test_equal_weights_give_md4_exactly(w, dtype):
    equal = Process(TokenPolynomial(torch.full((5,), w, dtype=torch.float64)), 5)
    scalar = Process(Polynomial(w), 5)
    x_0 = (Streams(0, 16).uniform(7) * 5).long()
    draw = TokenTime(equal, power=1.0).draw(x_0, Streams(1, 16))
    logits = torch.randn(int(draw.mask.sum()), 5, dtype=dtype, generator=torch.Generator().manual_seed(0))
    weight = -scalar.schedule.loss_weight(draw.t) * draw.weight
    md4 = nelbo(logits, x_0, as_scalar_draw(draw.t, draw.mask, weight)).total
    generalized = generalized_nelbo(logits, x_0, draw, equal).total
    torch.testing.assert_close(generalized, md4, rtol=1e-14 if dtype == torch.float64 else 1e-6, atol=0)
    # a scalar schedule through the generalized objective is MD4 as well
    torch.testing.assert_close(generalized_nelbo(logits, x_0, draw, scalar).total, generalized, rtol=1e-13, atol=0)
    # and with T steps
    s = draw.t / 2
    step_weight = scalar.schedule.unmask_prob(s, draw.t) * draw.weight
    md4_steps = nelbo(logits, x_0, as_scalar_draw(draw.t, draw.mask, step_weight)).total
    steps = generalized_steps_nelbo(logits, x_0, as_draw(draw.t, draw.mask, draw.weight, s), equal).total
    torch.testing.assert_close(steps, md4_steps, rtol=1e-13 if dtype == torch.float64 else 1e-6, atol=0)
    scalar_steps = generalized_steps_nelbo(logits, x_0, as_draw(draw.t, draw.mask, draw.weight, s), scalar).total
    torch.testing.assert_close(scalar_steps, steps, rtol=1e-13 if dtype == torch.float64 else 1e-6, atol=0)


def test_equal_rates_leave_no_remainder_at_all():
    """Σ_v (r_v − r_x) μ_v is exactly 0, bit for bit, not only to rounding."""
    process = Process(TokenPolynomial(torch.ones(5, dtype=torch.float64)), 5)
    x_0 = (Streams(0, 16).uniform(7) * 5).long()
    draw = TokenTime(process, power=1.0).draw(x_0, Streams(1, 16))
    logits = torch.randn(int(draw.mask.sum()), 5, generator=torch.Generator().manual_seed(0))
    scalar = Process(Linear(), 5)
    assert torch.equal(
        generalized_nelbo(logits, x_0, draw, process).total, generalized_nelbo(logits, x_0, draw, scalar).total
    )


@given(
    w=st.lists(st.floats(0.2, 5), min_size=4, max_size=4),
    logits=st.lists(st.floats(-30, 30), min_size=4, max_size=4),
    x=st.integers(0, 3),
    t=st.floats(1e-3, 1),
    ratio=st.floats(0, 0.999),
)
def test_the_loss_is_never_negative(w, logits, x, t, ratio):
    process = Process(TokenPolynomial(torch.tensor(w, dtype=torch.float64)), 4)
    x_0, mask, one = torch.tensor([[x]]), torch.tensor([[True]]), torch.ones(1, dtype=torch.float64)
    row = torch.tensor([logits], dtype=torch.float64)
    rounding = 1e-12 / t
    assert generalized_nelbo(row, x_0, as_draw(column(t), mask, one), process).total >= -rounding
    step = as_draw(column(t), mask, one, column(t * ratio))
    assert generalized_steps_nelbo(row, x_0, step, process).total >= -rounding


def enumerated_gradients(w, theta):
    """∇ of the bound itself: all masks, quadrature over time, the law of the masks differentiated."""
    process = Process(TokenPolynomial(w), 3)
    draw = token_continuous_time(process, X_0)
    bound = exact_nelbo(
        partial(toy_network, theta),
        X_0,
        draw,
        process,
        partial(generalized_nelbo, process=process),
    )
    return torch.autograd.grad(bound.total, [w, theta])


def mean_gradients(w, theta, surrogate):
    """The mean of a two-sample surrogate's gradient: quadrature over t, all pairs of masks with their probabilities."""
    process = Process(TokenPolynomial(w), 3)
    t, dt = tanh_sinh(160)
    masks = all_masks(3)
    pairs = torch.cartesian_prod(torch.arange(8), torch.arange(8))
    time = t.repeat_interleave(64)
    x = X_0.expand(len(time), -1)
    draws = [as_draw(time, masks[pairs[:, i]].repeat(len(t), 1), torch.ones_like(time)) for i in range(2)]
    losses, log_q = [], []
    for draw in draws:
        logits = toy_network(theta, process.hide(x, draw.mask), draw.t)
        losses.append(generalized_nelbo(logits[draw.mask], x, draw, process).total)
        log_q.append(log_q_mask(process, x, draw))
    probability = (log_q[0] + log_q[1]).exp().detach() * dt.repeat_interleave(64)
    return torch.autograd.grad((probability * surrogate(*losses, *log_q)).sum(), [w, theta])


def test_rloo_gradient_is_exact_in_the_mean_and_naive_autodiff_is_not():
    w = W.clone().requires_grad_()
    theta = torch.randn(3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(3)).requires_grad_()
    true_w, true_theta = enumerated_gradients(w, theta)
    rloo_w, rloo_theta = mean_gradients(w, theta, rloo)
    torch.testing.assert_close(rloo_w, true_w, rtol=1e-8, atol=1e-9)
    torch.testing.assert_close(rloo_theta, true_theta, rtol=1e-8, atol=1e-9)
    naive_w, naive_theta = mean_gradients(w, theta, lambda loss_1, loss_2, *_: 0.5 * (loss_1 + loss_2))
    torch.testing.assert_close(naive_theta, true_theta, rtol=1e-8, atol=1e-9)  # only w is wrong
    assert (naive_w - true_w).abs().max() > 0.1 * true_w.abs().max()


def test_enumerated_gradient_is_the_finite_difference():
    theta = torch.randn(3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(3))

    def bound(w):
        process = Process(TokenPolynomial(w), 3)
        draw, objective = token_continuous_time(process, X_0), partial(generalized_nelbo, process=process)
        return exact_nelbo(partial(toy_network, theta), X_0, draw, process, objective).total.item()

    gradient, _ = enumerated_gradients(W.clone().requires_grad_(), theta.requires_grad_())
    for v in range(3):
        step = torch.zeros(3, dtype=torch.float64)
        step[v] = 1e-5
        assert (bound(W + step) - bound(W - step)) / 2e-5 == pytest.approx(gradient[v].item(), rel=1e-5)


@pytest.mark.parametrize(("smallest", "power"), [(0.2, 0.1), (0.6, 0.3), (1.0, 0.5), (4.0, 0.5)])
def test_times_have_half_the_power_of_the_smallest_exponent(smallest, power):
    """The second moment at t → 0, ∫ t^(w−power−1) dt / power, is finite and least there."""
    w = torch.tensor([5.0, smallest, 4.5], dtype=torch.float64, requires_grad=True)
    draw = TokenTime(Process(TokenPolynomial(w), 3)).draw(X_0.expand(64, -1), Streams(0, 64))
    torch.testing.assert_close(draw.weight, draw.t ** (1 - power) / power)
    assert not draw.t.requires_grad  # the times are drawn, not learned


def test_drawn_rloo_gradient_agrees_with_enumeration():
    """The same through `TokenTime.draw_pair`: 200 batches of 500 pairs, |z| < 5.5 for 12 entries (false alarm 5e-7)."""
    w = W.clone().requires_grad_()
    theta = torch.randn(3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(3)).requires_grad_()
    truth = torch.cat([g.flatten() for g in enumerated_gradients(w, theta)])
    process = Process(TokenPolynomial(w), 3)
    x, estimates = X_0.expand(500, -1), []
    for batch in range(200):
        draws = TokenTime(process).draw_pair(x, Streams(7, 500, step=batch))
        assert torch.equal(draws[0].t, draws[1].t)
        losses, log_q = [], []
        for draw in draws:
            logits = toy_network(theta, process.hide(x, draw.mask), draw.t)
            losses.append(generalized_nelbo(logits[draw.mask], x, draw, process).total)
            log_q.append(log_q_mask(process, x, draw))
        surrogate = rloo(*losses, *log_q)
        torch.testing.assert_close(surrogate, (losses[0] + losses[1]) / 2)
        gradient = torch.autograd.grad(surrogate.mean(), [w, theta])
        estimates.append(torch.cat([g.flatten() for g in gradient]))
    estimates = torch.stack(estimates)
    z = (estimates.mean(0) - truth) / (estimates.std(0) / len(estimates) ** 0.5)
    assert z.abs().max() < 5.5


@pytest.mark.parametrize("grid", [uniform_grid(4), uniform_grid(4)[:-1]], ids=["to zero", "paper"])
def test_t_step_gradients_are_finite_and_right(grid):
    """∂/∂w of the T-step bound on grids that touch t = 1 and s = 0: by autograd, by differences, and by RLOO."""
    theta = torch.randn(3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(3))

    def bound(w):
        process = Process(TokenPolynomial(w), 3)
        draw, objective = token_steps(process, X_0, grid), partial(generalized_steps_nelbo, process=process)
        return exact_nelbo(partial(toy_network, theta), X_0, draw, process, objective).total

    w = W.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(bound(w), w)
    for v in range(3):
        step = torch.zeros(3, dtype=torch.float64)
        step[v] = 1e-5
        difference = (bound(W + step) - bound(W - step)).item() / 2e-5
        assert gradient[v].item() == pytest.approx(difference, rel=1e-5)

    process, x, estimates = Process(TokenPolynomial(w), 3), X_0.expand(1000, -1), []
    estimator = TokenSteps(process, grid)
    for batch in range(100):
        draws = estimator.draw_pair(x, Streams(5, 1000, step=batch))
        losses = [estimator.nelbo(toy_network(theta, process.hide(x, d.mask), d.t)[d.mask], x, d).total for d in draws]
        surrogate = rloo(*losses, *(log_q_mask(process, x, d) for d in draws))
        estimates.append(torch.autograd.grad(surrogate.mean(), w)[0])
    estimates = torch.stack(estimates)
    z = (estimates.mean(0) - gradient) / (estimates.std(0) / len(estimates) ** 0.5)
    assert z.abs().max() < 5.5


def kl_of_a_step(w, logits, x, s, t):
    """KL(q(x_s | x_t = m, x_0 = x) ‖ p(x_s | x_t = m)) over x and the mask, as App. I defines it, to 50 digits."""
    with mpmath.workdps(50):
        w, logits, s, t = [mpmath.mpf(v) for v in w], [mpmath.mpf(v) for v in logits], mpmath.mpf(s), mpmath.mpf(t)
        total = mpmath.fsum(mpmath.exp(v) for v in logits)
        mu, stay = [mpmath.exp(v) / total for v in logits], [(s / t) ** v for v in w]
        remains = mpmath.fsum(a * b for a, b in zip(mu, stay, strict=True))
        revealed = (1 - stay[x]) * mpmath.log((1 - stay[x]) / (mu[x] * (1 - stay[x])))
        return float(revealed + (stay[x] * mpmath.log(stay[x] / remains) if s else 0))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("num_steps", [1, 30, 10_000, 1_000_000])
@pytest.mark.parametrize("w", [(0.2, 0.5, 0.9), (0.6, 1.0, 2.7), (0.9, 1.0, 1e6)], ids=str)
def test_fine_grids_lose_no_digits(w, num_steps, dtype):
    """A step costs about 1/T: every row to its own relative precision, from the first step to the last."""
    process = Process(TokenPolynomial(column(*w)), 3)
    index = torch.logspace(0, math.log10(num_steps), 24).long().clamp(max=num_steps)
    t, s = index.double() / num_steps, (index - 1).double() / num_steps
    x_0 = torch.arange(24)[:, None] % 3
    logits = torch.randn(24, 3, generator=torch.Generator().manual_seed(0)).to(dtype)
    draw = as_draw(t, torch.ones_like(x_0, dtype=torch.bool), torch.ones_like(t), s)
    found = generalized_steps_nelbo(logits, x_0, draw, process).total
    rows = zip(logits.tolist(), x_0[:, 0].tolist(), s.tolist(), t.tolist(), strict=True)
    truth = column(*(kl_of_a_step(column(*w).tolist(), *row) for row in rows))
    torch.testing.assert_close(found, truth, rtol=1e-5 if dtype == torch.float32 else 1e-9, atol=1e-300)


def test_shifts_beyond_float32_have_finite_gradients():
    """log Σ μ_v e^(shift_v) where the sum is near 1, far from it and not a float32: values and gradients by float64."""
    logits = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    logits[-1, 0] = -40  # so rare that only an even larger shift counts
    shift = [[1e-6, -2e-6, 3e-7], [0.0, -30.0, -50.0], [500.0, -1.0, 0.0], [-1e6, -300.0, -1e4], [60.0, 0.0, -1e-3]]
    shift = torch.tensor(shift)
    wide = [x.double().requires_grad_() for x in (logits, shift)]
    reference = torch.logsumexp(wide[0] + wide[1], -1) - torch.logsumexp(wide[0], -1)
    narrow = [x.requires_grad_() for x in (logits, shift)]
    found = log_mean_exp(*narrow)
    torch.testing.assert_close(found.double(), reference, rtol=1e-5, atol=1e-12)
    for a, b in zip(torch.autograd.grad(found.sum(), narrow), torch.autograd.grad(reference.sum(), wide), strict=True):
        torch.testing.assert_close(a.double(), b, rtol=1e-4, atol=1e-6)


def test_pairs_leave_padding_visible():
    process = Process(TokenPolynomial(W), 3)
    x, valid = X_0.expand(200, -1), torch.tensor([True, False, True]).expand(200, -1)
    for estimator in (TokenTime(process), TokenSteps(process, uniform_grid(3))):
        for draw in estimator.draw_pair(x, Streams(0, 200), valid=valid):
            assert not draw.mask[:, 1].any()
            assert draw.mask[:, 0].any()


def test_images_of_tokens():
    """A [B, 2, 3] batch costs what its rows of six cost."""
    process = Process(TokenPolynomial(W), 3)
    x = (Streams(0, 8).uniform(2, 3) * 3).long()
    image, flat = TokenTime(process).draw(x, Streams(1, 8)), TokenTime(process).draw(x.flatten(1), Streams(1, 8))
    logits = torch.randn(int(image.mask.sum()), 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for objective in (generalized_nelbo,):
        a, b = objective(logits, x, image, process).total, objective(logits, x.flatten(1), flat, process).total
        torch.testing.assert_close(a, b)
    torch.testing.assert_close(log_q_mask(process, x, image), log_q_mask(process, x.flatten(1), flat))


def test_log_q_mask_leaves_padding_out():
    process = Process(TokenPolynomial(W), 3)
    x = torch.tensor([[2, 0, 1, 1]])
    draw = as_draw(column(0.3), torch.tensor([[True, False, False, False]]), column(1.0))
    valid = torch.tensor([[True, True, False, False]])
    by_hand = 2.7 * column(0.3).log() + torch.log1p(-(column(0.3) ** 0.6))
    torch.testing.assert_close(log_q_mask(process, x, draw, valid), by_hand)


def test_log_q_mask_at_the_last_time():
    """At t = 1 everything that counts is masked: log 1 = 0, with a gradient of 0, padding or not."""
    w = W.clone().requires_grad_()
    process = Process(TokenPolynomial(w), 3)
    x, valid = torch.tensor([[2, 0, 1]]), torch.tensor([[True, True, False]])
    log_q = log_q_mask(process, x, as_draw(column(1.0), valid.clone(), column(1.0)), valid)
    assert log_q.item() == 0
    assert torch.equal(torch.autograd.grad(log_q.sum(), w)[0], torch.zeros(3, dtype=torch.float64))
