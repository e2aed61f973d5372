"""GenMD4 as a race: the bound without time, against Eq. (12) by quadrature. False alarms: below 1e-6 for the file."""

import itertools
import math
from dataclasses import replace

import pytest
import torch

from unmask.core import (
    ExactK,
    Linear,
    PowerK,
    Process,
    RaceDraw,
    Streams,
    TokenExactK,
    TokenPolynomial,
    TokenTime,
    UniformK,
    balanced,
    estimate_nelbo,
    generalized_nelbo,
    iid,
    lattice,
    nelbo,
    paired,
    rloo,
    stratified,
)
from unmask.core.exact import TableLaw, exact_nelbo, token_continuous_time, token_exact_k

from .laws import W, z_score

LAW = TableLaw.random(3, 3, seed=1)
PROCESS = Process(TokenPolynomial(W), 3)
X_0 = torch.tensor([2, 0, 1])
Z = 5.6  # two-sided 2e-8 per comparison


def without_time(x_t, t, condition=None):
    """Some denoiser, not the right one, that looks at what is masked and not at t."""
    del t, condition
    shown = torch.nn.functional.one_hot(x_t, 4).double()
    return shown.cumsum(1)[..., :3] - 0.7 * shown.flip(1).cumsum(1).flip(1)[..., 1:]


def with_time(x_t, t, condition=None):
    return without_time(x_t, t, condition) + torch.sin(3 * t)[:, None, None] * torch.arange(3)


def by_quadrature(denoiser, x_0, process=PROCESS):
    def objective(logits, x, draw):
        return generalized_nelbo(logits, x, draw, process)

    return exact_nelbo(denoiser, x_0, token_continuous_time(process, x_0, nodes=320), process, objective).total


@pytest.mark.parametrize("x_0", [[2, 0, 1], [0, 0, 2], [1, 1, 1]])
def test_the_sum_over_races_is_the_integral_over_time(x_0):
    x_0 = torch.tensor(x_0)
    by_race = exact_nelbo(without_time, x_0, token_exact_k(PROCESS, x_0), PROCESS, TokenExactK(PROCESS).nelbo).total
    torch.testing.assert_close(by_race, by_quadrature(without_time, x_0), rtol=1e-9, atol=1e-9)


def test_sets_of_the_race_by_all_orders():
    """P(M) of the recursion against Π w/W over all orders in which the tokens may appear."""
    w = W[X_0]
    chances = torch.zeros(8, dtype=torch.float64)
    for order in itertools.permutations(range(3)):
        masked, chance = [True] * 3, 1.0
        for n in order:
            chance *= (w[n] / w[torch.tensor(masked)].sum()).item()
            masked[n] = False
        masked = [True] * 3
        for n in order:  # every set along this order
            chances[int("".join(str(int(m)) for m in masked), 2)] += chance
            masked[n] = False
    draw = token_exact_k(PROCESS, X_0)
    torch.testing.assert_close(draw.weight * (draw.mask * w).sum(1), chances[1:])


@pytest.mark.parametrize("law", [UniformK(), PowerK(0.5)], ids=str)
@pytest.mark.parametrize("spread", [iid, stratified, balanced, paired, lattice])
@pytest.mark.parametrize("denoiser", [without_time, with_time])
def test_unbiased(denoiser, spread, law):
    estimator, groups, draws = TokenExactK(PROCESS, spread, law), 1500, 8
    rows = X_0.expand(groups * draws, -1)
    draw = estimator.draw(rows, Streams(1, len(rows)), strata=draws)
    total = estimator.nelbo(denoiser(PROCESS.hide(rows, draw.mask), draw.t)[draw.mask], rows, draw).total
    truth = by_quadrature(denoiser, X_0)
    assert abs(z_score(total.view(groups, draws).mean(1), truth)) < Z
    assert abs(z_score(total.view(groups, draws)[:, 0], truth)) < Z


def test_tight_for_the_exact_denoiser():
    """Which sees the time: the mean over many draws is −log p(x_0)."""
    bound = estimate_nelbo(LAW.denoiser(PROCESS), X_0[None], TokenExactK(PROCESS), draws=32, repeats=200)
    assert abs(bound.mean.item() + LAW.log_prob(X_0[None]).item()) < Z * bound.standard_error.item()


def test_padding_is_not_part_of_the_race():
    estimator, rows = TokenExactK(PROCESS), torch.tensor([2, 0, 1, 2, 2]).expand(12_000, -1)
    valid = torch.tensor([True, True, True, False, False]).expand_as(rows)
    draw = estimator.draw(rows, Streams(3, len(rows)), valid=valid)
    assert not draw.mask[:, 3:].any()
    shown = PROCESS.hide(rows, draw.mask)[:, :3]
    total = estimator.nelbo(with_time(shown, draw.t)[draw.mask[:, :3]], rows, draw).total
    assert abs(z_score(total, by_quadrature(with_time, X_0))) < Z
    nothing = estimator.draw(rows[:2], Streams(3, 2), valid=torch.zeros_like(valid[:2]))
    assert nothing.weight.tolist() == [0, 0]
    assert nothing.t.isfinite().all()


def test_equal_exponents_are_exact_k():
    """The same masks and weights from the same random numbers, whatever the exponent; times are powers."""
    rows = torch.zeros(64, 20, dtype=torch.int64)
    plain = ExactK(Process(Linear(), 3), paired).draw(rows, Streams(5, 64))
    race = TokenExactK(Process(TokenPolynomial(torch.full((3,), 2.5).double()), 3), paired).draw(rows, Streams(5, 64))
    assert torch.equal(race.mask, plain.mask)
    assert race.count == plain.count == 32 * 21
    torch.testing.assert_close(race.weight * 2.5, plain.weight)
    torch.testing.assert_close(race.t**2.5, plain.t)


def test_it_varies_less_than_times_do():
    """Forty tokens, one draw each: the variance is less than two thirds (it is about a half)."""
    process = Process(TokenPolynomial(torch.tensor([4.0, 1.0, 1.0], dtype=torch.float64)), 3)
    rows = (Streams(0, 1).uniform(40) * 3).long().expand(4000, -1)
    variances = []
    for estimator in (TokenExactK(process, iid, PowerK(0.5)), TokenTime(process, iid)):
        draw = estimator.draw(rows, Streams(1, len(rows)))
        logits = without_time(process.hide(rows, draw.mask), draw.t).tanh()
        variances.append(estimator.nelbo(logits[draw.mask], rows, draw).total.var().item())
    assert variances[0] < variances[1] * 2 / 3


THETA = torch.randn(3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(3)).requires_grad_()


def with_parameters(x_t, t):
    return (with_time(x_t, t) + 0.3) @ THETA


def without_time_with_parameters(x_t, t):
    return (without_time(x_t, t) + 0.3) @ THETA


def drawn_gradients(estimator, denoiser, w, *, times, batches=100, rows=500):
    """Of w and of the denoiser's parameters, by pairs of races as `GenMD4` uses them [batches, 12]."""
    x, found = X_0.expand(rows, -1), []
    for batch in range(batches):
        losses, log_q, weighed = [], [], []
        for draw in estimator.draw_pair(x, Streams(7, rows, step=batch)):
            logits = denoiser(estimator.process.hide(x, draw.mask), draw.t)
            fixed = replace(draw, weight=draw.weight.detach())
            losses.append(estimator.nelbo(logits[draw.mask], x, fixed).total)
            log_q.append(estimator.log_q(x, draw, times=times))
            weighed.append(losses[-1].detach() * draw.weight / draw.weight.detach())
        surrogate = rloo(*losses, *log_q) + 0.5 * (weighed[0] + weighed[1])
        found.append(torch.cat([g.flatten() for g in torch.autograd.grad(surrogate.mean(), [w, THETA])]))
    return torch.stack(found)


@pytest.mark.parametrize(
    ("denoiser", "times"),
    [(with_parameters, True), (without_time_with_parameters, True), (without_time_with_parameters, False)],
    ids=["sees the time", "does not", "does not, by order alone"],
)
def test_the_leave_one_out_gradient_of_a_race(denoiser, times):
    """Against the gradient of Eq. (12) by quadrature: |z| < 5.6 for 12 entries."""
    w = W.clone().requires_grad_()
    process = Process(TokenPolynomial(w), 3)
    truth = torch.cat([g.flatten() for g in torch.autograd.grad(by_quadrature(denoiser, X_0, process), [w, THETA])])
    found = drawn_gradients(TokenExactK(process, stratified), denoiser, w, times=times)
    assert ((found.mean(0) - truth) / (found.std(0) / len(found) ** 0.5)).abs().max() < Z


def test_the_order_alone_is_not_enough_where_the_time_is_seen():
    """The time that a network is shown depends on w too; leaving that out is seen."""
    w = W.clone().requires_grad_()
    process = Process(TokenPolynomial(w), 3)
    (truth,) = torch.autograd.grad(by_quadrature(with_parameters, X_0, process), w)
    found = drawn_gradients(TokenExactK(process, stratified), with_parameters, w, times=False)[:, :3]
    assert ((found.mean(0) - truth) / (found.std(0) / len(found) ** 0.5)).abs().max() > 2 * Z


def test_the_gradient_of_a_race_varies_less():
    """Than that of drawn times: each entry of w has less than half the standard deviation."""
    w = W.clone().requires_grad_()
    process = Process(TokenPolynomial(w), 3)
    race = drawn_gradients(TokenExactK(process, stratified), with_parameters, w, times=True, batches=60)[:, :3]
    timed = drawn_gradients(TokenTime(process), with_parameters, w, times=True, batches=60)[:, :3]
    assert (race.std(0) < timed.std(0) / 2).all(), (race.std(0), timed.std(0))


def test_log_q_is_a_probability():
    """Of all orders down to one token, with the clocks integrated out: they sum to one."""
    estimator, rows = TokenExactK(PROCESS), X_0.expand(6, -1)
    orders = torch.tensor(list(itertools.permutations([1.0, 2.0, 3.0])), dtype=torch.float64)
    zero = torch.zeros(6, dtype=torch.float64)
    draw = RaceDraw(zero + 0.5, orders == 3, zero + 1, zero, zero, zero, rings=orders)
    assert estimator.log_q(rows, draw, times=False).exp().sum().item() == pytest.approx(1, abs=1e-12)
    padded = replace(draw, mask=draw.mask & (orders > 5))  # nothing hidden: all three have appeared
    assert estimator.log_q(rows, padded, times=False).exp().sum().item() == pytest.approx(1, abs=1e-12)
    with pytest.raises(ValueError, match="the race is unknown"):
        estimator.log_q(X_0[None].expand(7, -1), token_exact_k(PROCESS, X_0))


def test_draws_of_a_race_are_charged_by_its_estimator_only():
    estimator = TokenExactK(PROCESS)
    draw = estimator.draw(X_0[None], Streams(0, 1))
    logits = torch.zeros(int(draw.mask.sum()), 3)
    with pytest.raises(ValueError, match="the draw is a GenMD4 draw: got a RaceDraw"):
        nelbo(logits, X_0[None], draw)
    with pytest.raises(ValueError, match="the draw is not a GenMD4 draw"):
        generalized_nelbo(logits, X_0[None], draw, PROCESS)
    with pytest.raises(ValueError, match="the schedule is not a race: got Linear, allowed: TokenPolynomial"):
        TokenExactK(Process(Linear(), 3))
    assert isinstance(draw, RaceDraw)
    assert math.isfinite(estimator.nelbo(logits, X_0[None], draw).total.item())
