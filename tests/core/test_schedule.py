import math

import mpmath
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from unmask.core import Cosine, Custom, Geometric, Linear, Polynomial, Shifted, TokenPolynomial, fitting_grid

from .laws import SCHEDULES, W, column

times = st.floats(1e-6, 1 - 1e-6)
MOST = 20
weights = st.floats(0.05, MOST)

FAMILIES = {
    "linear": st.just(Linear()),
    "polynomial": weights.map(Polynomial),
    "geometric": st.tuples(st.floats(1e-8, 1e-2), st.floats(1, 50)).map(lambda b: Geometric(*b)),
    "cosine": st.just(Cosine()),
    "custom": weights.map(lambda w: Custom(lambda t: (1 - t) ** w)),
    "shifted": st.tuples(weights, st.floats(1e-6, 0.1)).map(lambda a: Shifted(Polynomial(a[0]), a[1])),
}


@pytest.mark.parametrize("family", FAMILIES)
@given(data=st.data(), t=times)
def test_derivative_is_autograd_of_alpha(family, data, t):
    """To the digits that autograd has: it takes exp(x) for expm1(x) + 1, one rounding of 1, times w/t."""
    schedule = data.draw(FAMILIES[family])
    leaf = column(t).requires_grad_()
    (slope,) = torch.autograd.grad(schedule.alpha(leaf).sum(), leaf)
    rounding = torch.finfo(torch.float64).eps * MOST / t
    torch.testing.assert_close(schedule.dalpha(column(t)), slope, rtol=1e-8, atol=1e-12 + rounding)


@pytest.mark.parametrize("family", FAMILIES)
@given(data=st.data(), t=times)
def test_loss_weight_is_derivative_over_mask_probability(family, data, t):
    schedule, t = data.draw(FAMILIES[family]), column(t)
    torch.testing.assert_close(schedule.loss_weight(t) * schedule.mask_prob(t), schedule.dalpha(t), rtol=1e-9, atol=0)
    assert schedule.loss_weight(t) <= 0


@pytest.mark.parametrize("family", FAMILIES)
@given(data=st.data(), t=times)
def test_inverses_return_the_time(family, data, t):
    schedule, t = data.draw(FAMILIES[family]), column(t)
    lost = torch.finfo(torch.float64).eps / schedule.dalpha(t).abs()  # one rounding of α, seen from t
    if lost > 1e-9:
        return  # α is flat here: many times share one floating-point α
    tolerance = {"rtol": 1e-9, "atol": 40 * lost.item()}
    torch.testing.assert_close(schedule.inverse(schedule.alpha(t)), t, **tolerance)
    torch.testing.assert_close(schedule.inverse_mask_prob(schedule.mask_prob(t)), t, **tolerance)
    torch.testing.assert_close(schedule.inverse_log_snr(schedule.log_snr(t)), t, **tolerance)


@pytest.mark.parametrize("family", FAMILIES)
@given(data=st.data(), s=times, t=times)
def test_log_snr_falls_and_unmask_prob_is_a_probability(family, data, s, t):
    schedule = data.draw(FAMILIES[family])
    s, t = column(min(s, t)), column(max(s, t))
    assert schedule.log_snr(s) >= schedule.log_snr(t)
    ratio = 1 - schedule.mask_prob(s) / schedule.mask_prob(t)
    torch.testing.assert_close(schedule.unmask_prob(s, t), ratio, rtol=1e-6, atol=1e-9)
    assert 0 <= schedule.unmask_prob(s, t) <= 1


REFERENCES = {  # α as mpmath sees it, to 60 digits
    "linear": (Linear(), lambda t: 1 - t),
    "polynomial": (Polynomial(2.5), lambda t: 1 - t ** mpmath.mpf("2.5")),
    "geometric": (Geometric(1e-5, 20.0), lambda t: mpmath.exp(-(mpmath.mpf(1e-5) ** (1 - t)) * 20**t)),
    "cosine": (Cosine(), lambda t: 1 - mpmath.cos(mpmath.pi / 2 * (1 - t))),
    "shifted": (Shifted(Cosine(), 1e-4), lambda t: (1 - 2 * mpmath.mpf(1e-4)) * REFERENCES["cosine"][1](t) + 1e-4),
}


@pytest.mark.parametrize("name", REFERENCES)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-13), (torch.float32, 3e-5)])
def test_accurate_near_both_ends(name, dtype, tolerance):
    schedule, alpha = REFERENCES[name]
    tiny = [1e-12, 1e-8, 1e-5, 1e-3] if dtype == torch.float64 else [1e-6, 1e-4, 1e-3]
    with mpmath.workdps(60):
        for t in torch.tensor(tiny + [0.3, 0.5, 0.7] + [1 - u for u in tiny], dtype=dtype):
            exact = alpha(mpmath.mpf(t.item()))
            for got, truth in (
                (schedule.alpha(t), exact),
                (schedule.mask_prob(t), 1 - exact),
                (schedule.log_snr(t), mpmath.log(exact / (1 - exact))),
                (schedule.log_alpha(t), mpmath.log(exact)),
            ):
                # log-SNR passes through 0, where only its absolute error means anything
                assert abs(got.item() - truth) <= tolerance * max(abs(truth), 1e-20), (t, got, truth)


@pytest.mark.parametrize("name", SCHEDULES)
def test_ends(name):
    alpha = SCHEDULES[name].alpha(column(0.0, 1.0))
    assert torch.all((alpha >= 0) & (alpha <= 1))
    if name in ("linear", "polynomial 0.4", "polynomial 2.5", "cosine", "custom"):
        torch.testing.assert_close(alpha, column(1.0, 0.0), rtol=0, atol=1e-30)


def test_geometric_weight_is_negative_unlike_the_papers_table():
    """Tab. 4 prints −α/(1−α)·β̄·log(min/max), which is positive; the loss weight must not be."""
    t = column(0.3)
    beta = 1e-5 * (20 / 1e-5) ** t
    paper = -(-beta).exp() / (1 - (-beta).exp()) * beta * math.log(1e-5 / 20)
    assert paper > 0
    torch.testing.assert_close(Geometric(1e-5, 20.0).loss_weight(t), -paper, rtol=1e-9, atol=0)


def test_inverse_clamps_beyond_the_ends():
    schedule = Geometric(1e-3, 5.0)
    torch.testing.assert_close(schedule.inverse(column(1.0, 0.0)), column(0.0, 1.0))


def test_token_polynomial_picks_each_tokens_schedule():
    schedule, t = TokenPolynomial(W), column(0.2, 0.9)
    assert schedule.alpha(t).shape == (2, 3)
    for v in range(3):
        own = Polynomial(W[v].item())
        torch.testing.assert_close(schedule.alpha(t)[:, v], own.alpha(t))
        torch.testing.assert_close(schedule.loss_weight(t)[:, v], own.loss_weight(t))
        torch.testing.assert_close(schedule.at(torch.tensor(v)).log_alpha(t), own.log_alpha(t))
    torch.testing.assert_close(schedule.inverse(schedule.alpha(t)), t[:, None].expand(2, 3))
    shifted = Shifted(schedule, 0.01)
    torch.testing.assert_close(shifted.at(torch.tensor(2)).alpha(t), Shifted(Polynomial(2.7), 0.01).alpha(t))


def test_custom_without_mask_prob_never_gives_nan_weights():
    schedule = Custom(lambda t: 1 - t**3)
    weight = schedule.loss_weight(column(1e-300, 1e-9, 0.5, 1.0))
    assert torch.isfinite(weight).all()


@pytest.mark.parametrize(
    ("schedule", "same"),
    [
        (Linear(), Cosine()),
        (Polynomial(1.0), Cosine()),
        (TokenPolynomial(torch.ones(1, dtype=torch.float64)), Cosine()),
        (Shifted(Linear()), Shifted(Cosine())),
        (Shifted(Polynomial(1.0)), Shifted(Cosine())),
    ],
)
def test_fitting_grids_reveal_as_the_cosine_schedule_does(schedule, same):
    """Whichever way the linear schedule is written, and with a shift; α at the times of seven steps."""
    ours, theirs = (s.alpha(fitting_grid(s)(7)).flatten() for s in (schedule, same))
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-15)
