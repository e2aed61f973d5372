"""Estimators against the bounds they estimate. Statistical tests: fixed seeds, false alarm at most 1e-6 per file."""

import math
from dataclasses import dataclass
from functools import partial

import pytest
import torch
from scipy import stats

from unmask.core import (
    BellK,
    ContinuousTime,
    Controlled,
    Cosine,
    EstimatorWrapper,
    ExactK,
    Geometric,
    Linear,
    LogSnr,
    Polynomial,
    PowerK,
    Process,
    Shifted,
    Steps,
    Streams,
    TokenPolynomial,
    TokenSteps,
    TokenTime,
    UniformK,
    balanced,
    cosine_grid,
    estimate_nelbo,
    fit_surprise,
    generalized_nelbo,
    generalized_steps_nelbo,
    iid,
    lattice,
    nelbo,
    paired,
    stratified,
    uniform_grid,
)
from unmask.core.exact import (
    MarkovLaw,
    TableLaw,
    continuous_time,
    exact_k,
    exact_nelbo,
    log_snr,
    steps,
    token_continuous_time,
    token_steps,
)

from .laws import CORRELATED_BITS, W, z_score

LAW = TableLaw.random(3, 3, seed=1)
UNIGRAM = torch.tensor([0.5, 1.0, 2.0], dtype=torch.float64)
Z = 5.6  # two-sided 2e-8 per comparison, below 1e-6 for all of them together
SPREADS = {"iid": iid, "lattice": lattice, "stratified": stratified, "balanced": balanced, "paired": paired}


def timed(denoiser):
    """A denoiser that depends on t, to catch wrong times: logits tilted by sin(3t)."""

    def denoise(x_t, t, condition=None):
        logits = denoiser(x_t, t, condition)
        return logits + torch.sin(3 * t)[:, None, None] * torch.arange(logits.shape[-1])

    return denoise


def scalar_cases():
    """(estimator, the enumerated bound it must match)."""
    for schedule in (
        Linear(),
        Cosine(),
        Polynomial(2.0),
        Polynomial(0.5),
        Geometric(1e-3, 5.0),
        Shifted(Linear(), 1e-2),
        Shifted(Polynomial(0.7), 1e-2),
    ):
        process = Process(schedule, 3)
        for name, spread in SPREADS.items():
            yield f"continuous {name} {schedule}", ContinuousTime(process, spread), partial(continuous_time, nodes=320)
    process = Process(Linear(), 3)
    for grid in (uniform_grid(5), uniform_grid(5)[:-1], cosine_grid(7), cosine_grid(8)[2:]):  # the last starts below 1
        yield f"steps {len(grid)}", Steps(process, grid), partial(steps, grid=grid)
    for schedule in (Linear(), Geometric(1e-3, 5.0)):
        process = Process(schedule, 3)
        yield f"log-snr {schedule}", LogSnr(process, -6.0, 6.0), partial(log_snr, low=-6.0, high=6.0)


def controlled_cases():
    """Control variates where the estimator covers only part of the integral, with a baseline large enough to show."""
    process, surprise = Process(Shifted(Linear(), 0.1), 3), 3 * UNIGRAM
    grid = torch.linspace(0.9, 0.1, 5, dtype=torch.float64)
    for name, estimator, form in (
        ("continuous", ContinuousTime(process, lattice), partial(continuous_time, nodes=320)),
        ("log-snr", LogSnr(process, -1.5, 1.5, stratified), partial(log_snr, low=-1.5, high=1.5)),
        ("steps", Steps(process, grid), partial(steps, grid=grid)),
    ):
        yield f"controlled {name}", Controlled(estimator, surprise, beta=1.0), form


def exact_k_cases():
    """The same bound as continuous time over a complete schedule, also for a denoiser that sees the time."""
    for schedule in (Linear(), Cosine(), Polynomial(0.5)):
        process = Process(schedule, 3)
        for name, spread in SPREADS.items():
            for law in (UniformK(), PowerK(0.5), BellK()):
                yield f"exact-k {name} {law} {schedule}", ExactK(process, spread, law), continuous_time
        control = Controlled(ExactK(process, stratified, PowerK(0.5)), UNIGRAM)
        yield f"exact-k controlled {schedule}", control, continuous_time


CASES = {name: (estimator, form) for name, estimator, form in [*scalar_cases(), *controlled_cases(), *exact_k_cases()]}


@pytest.mark.parametrize("name", CASES)
def test_unbiased_also_for_denoisers_that_see_the_time(name):
    estimator, form = CASES[name]
    process, x_0, groups, draws = estimator.process, torch.tensor([0, 2, 1]), 1500, 8
    denoiser = timed(LAW.denoiser(process))
    truth = exact_nelbo(denoiser, x_0, form(process, x_0), process)
    rows = x_0.expand(groups * draws, -1)
    draw = estimator.draw(rows, Streams(1, len(rows)), strata=draws)
    parts = nelbo(denoiser(process.hide(rows, draw.mask), draw.t)[draw.mask], rows, draw)
    assert parts.reconstruction[0].item() == pytest.approx(truth.reconstruction.item(), abs=1e-12)
    assert parts.prior[0].item() == pytest.approx(truth.prior.item(), abs=1e-12)
    assert abs(z_score(parts.total.view(groups, draws).mean(1), truth.total)) < Z
    # each row alone is unbiased too, not only the group's mean
    assert abs(z_score(parts.total.view(groups, draws)[:, 0], truth.total)) < Z


@pytest.mark.parametrize("spread", SPREADS.values(), ids=SPREADS.keys())
def test_spreads_are_uniform_and_fill_the_interval(spread):
    """Each row uniform over many groups; within a group stratified points hit every cell once."""
    groups, strata = 4000, 8
    u = spread(Streams(0, groups * strata), strata).view(groups, strata)
    assert u.min() > 0
    assert u.max() < 1
    for row in (0, 5):
        assert stats.kstest(u[:, row].numpy(), "uniform").pvalue > 1e-7
    cells = (u * strata).long().sort(1).values
    if spread in (lattice, stratified, balanced):
        assert torch.equal(cells, torch.arange(strata).expand(groups, -1))
    if spread is balanced:
        places = (u * strata).sort(1).values % 1
        torch.testing.assert_close(places[:, 0::2] + places[:, 1::2], torch.ones(groups, strata // 2).double())
    if spread is paired:
        assert torch.equal(u[:, 0::2] + u[:, 1::2], torch.ones(groups, strata // 2, dtype=torch.float64))
        halves = (u[:, 0::2] * strata / 2).long().sort(1).values
        assert torch.equal(halves, torch.arange(strata // 2).expand(groups, -1))


def test_small_exponents_have_finite_weights():
    """t = u^(2/w) underflows where w is tiny: the weight there is large, not inf · 0."""
    x_0 = torch.zeros(20_000, 3, dtype=torch.int64)
    for w in (0.9, 0.3, 0.02):
        weight = ContinuousTime(Process(Polynomial(w), 3)).draw(x_0, Streams(0, len(x_0))).weight
        assert weight.isfinite().all()


def test_spreads_do_not_depend_on_how_ranks_split_the_batch():
    whole = stratified(Streams(4, 16), 16)
    parts = [stratified(Streams(4, torch.arange(16)[rank::2]), 16) for rank in range(2)]
    assert torch.equal(whole[0::2], parts[0])
    assert torch.equal(whole[1::2], parts[1])


@pytest.mark.parametrize("length", [7, 256, 1023])
def test_paired_masks_a_constant_number_of_tokens(length):
    x_0 = torch.zeros(64, length, dtype=torch.int64)
    estimator = ExactK(Process(Linear(), 3), paired)
    for seed in range(20):
        mask = estimator.draw(x_0, Streams(seed, 64)).mask
        assert mask.sum() == 64 * (length + 1) // 2
        k = mask.sum(1)
        assert torch.equal(k[0::2] + k[1::2], torch.full((32,), length + 1))


def test_halves_of_two_pairs_are_no_pair():
    """Rows 1..4 hide any number of tokens together: none is promised."""
    estimator, x_0 = ExactK(Process(Linear(), 3), paired), torch.zeros(4, 10, dtype=torch.int64)
    assert estimator.draw(x_0, Streams(0, torch.arange(4)), strata=8).count == 22
    assert estimator.draw(x_0, Streams(0, torch.arange(1, 5)), strata=8).count is None


@pytest.mark.parametrize("law", [UniformK(), BellK(2.0, 2.0), BellK(5.0, 5.0)], ids=str)
def test_symmetric_laws_of_k_are_symmetric_also_on_the_border(law):
    u, n = torch.tensor([0.25, 0.75, 0.5 - 2**-53, 0.5 + 2**-53], dtype=torch.float64), torch.full((4,), 4)
    assert torch.equal(law.quantile(u, n) + law.quantile(1 - u, n), torch.full((4,), 5))


def test_the_bell_prefers_the_middle():
    n = torch.full((3,), 101)
    low, middle, high = BellK(3.0, 3.0).prob(torch.tensor([2, 51, 100]), n).tolist()
    assert middle > 100 * low
    assert low == pytest.approx(high)


@pytest.mark.parametrize("law", [UniformK(), PowerK(0.5), PowerK(1.0), BellK(), BellK(1.5, 4.0)], ids=str)
def test_k_law(law):
    """Quantiles follow prob, rows of different length included; chi-square with false alarm 1e-7 each."""
    count = 50_000
    for n in (1, 2, 9):
        u = Streams(n, count).uniform()
        lengths = torch.full((count,), n)
        lengths[0] = 30  # a longer row in the batch must not change the others
        k = law.quantile(u, lengths)[1:]
        assert k.min() >= 1
        assert k.max() <= n
        values = torch.arange(1, n + 1)
        probs = law.prob(values, torch.full((n,), n))
        assert probs.sum().item() == pytest.approx(1)
        if n > 1:
            seen = torch.bincount(k, minlength=n + 1)[1:]
            assert stats.chisquare(seen.numpy(), (len(k) * probs).numpy()).pvalue > 1e-7


@pytest.mark.parametrize("law", [UniformK(), PowerK(0.5), BellK()], ids=str)
def test_a_law_of_k_looks_at_no_number_where_it_knows_the_longest_row(law):
    """On a GPU that would wait for the device; tensors without values cannot be looked at at all."""
    u, n, k = torch.rand(4, dtype=torch.float64), torch.tensor([3, 9, 5, 9]), torch.tensor([1, 9, 2, 3])
    assert torch.equal(law.quantile(u, n, 12), law.quantile(u, n))
    assert torch.equal(law.prob(k, n, 12), law.prob(k, n))
    assert law.quantile(u.to("meta"), n.to("meta"), 12).shape == (4,)
    assert law.prob(k.to("meta"), n.to("meta"), 12).shape == (4,)


def test_exact_k_masks_uniform_subsets_and_beta_times():
    """Given k: subsets equally likely (chi-square), 1−α_t is Beta(k, N−k+1) and independent of the subset."""
    process, n, count = Process(Cosine(), 3), 5, 60_000
    x_0 = torch.zeros(count, n, dtype=torch.int64)
    for k in (1, 3):
        draw = ExactK(process).draw_given_k(
            x_0, torch.full((count,), k), torch.ones(count, dtype=torch.float64), Streams(k, count)
        )
        subset = (draw.mask * 2 ** torch.arange(n)).sum(1)
        seen = torch.bincount(subset, minlength=2**n)
        assert (seen > 0).sum() == math.comb(n, k)
        assert stats.chisquare(seen[seen > 0].numpy()).pvalue > 1e-7
        mask_prob = process.schedule.mask_prob(draw.t)
        assert stats.kstest(mask_prob.numpy(), stats.beta(k, n - k + 1).cdf).pvalue > 1e-7
        first = mask_prob[draw.mask[:, 0]]
        assert stats.kstest(first.numpy(), stats.beta(k, n - k + 1).cdf).pvalue > 1e-7


def test_padding_is_never_masked_and_the_bound_is_that_of_the_rest():
    """A padded sequence must cost what its valid part costs alone."""
    law = TableLaw.random(3, 2, seed=3)
    process = Process(Linear(), 3)
    x_0 = torch.tensor([[1, 2, 0, 0]])
    valid = torch.tensor([[True, True, False, False]])

    def denoiser(x_t, t, condition=None):
        logits = torch.full((*x_t.shape, 3), torch.nan, dtype=torch.float64)  # padding must never be looked at
        logits[:, :2] = law.denoiser(process)(x_t[:, :2], t, condition)
        return logits

    truth = -law.log_prob(x_0[:, :2]).item()
    for estimator in (
        ExactK(process),
        ExactK(process, paired, PowerK()),
        Controlled(ExactK(process), UNIGRAM),
        ContinuousTime(process, lattice),
    ):
        bound = estimate_nelbo(denoiser, x_0, estimator, draws=64, repeats=200, valid=valid)
        assert abs(bound.mean.item() - truth) < Z * bound.standard_error.item()
    shifted = ContinuousTime(Process(Shifted(Linear(), 0.01), 3), lattice)
    draw = shifted.draw(x_0, Streams(0, 1), valid=valid)
    assert draw.reconstruction.item() == pytest.approx(2 * 0.01 * math.log(3))
    empty = ExactK(process).draw(x_0, Streams(0, 1), valid=torch.zeros_like(valid))
    assert nelbo(torch.zeros(0, 3), x_0, empty).total.item() == 0


def test_any_shape():
    process = Process(Linear(), 3)
    x_0 = torch.tensor([0, 2, 1, 1, 0, 2]).view(1, 2, 3).expand(10, -1, -1)
    flat = ExactK(process).draw(x_0.flatten(1), Streams(0, 10))
    image = ExactK(process).draw(x_0, Streams(0, 10))
    assert torch.equal(flat.mask, image.mask.flatten(1))
    assert torch.equal(flat.weight, image.weight)


def all_estimators(process):
    bits = torch.tensor([0.7, 0.7])
    named = {f"continuous {name}": ContinuousTime(process, spread) for name, spread in SPREADS.items()}
    named |= {f"exact-k {name}": ExactK(process, spread) for name, spread in SPREADS.items()}
    named |= {f"importance {name}": ExactK(process, spread, PowerK()) for name, spread in SPREADS.items()}
    named["controlled"] = Controlled(ExactK(process, stratified, PowerK()), bits)
    named["log-SNR"] = LogSnr(process)
    named["steps"] = Steps(process, uniform_grid(10))
    return named


BIT_ESTIMATORS = all_estimators(Process(Linear(), 2))


@pytest.mark.parametrize("estimator", BIT_ESTIMATORS.values(), ids=BIT_ESTIMATORS.keys())
def test_no_estimator_reports_below_the_entropy(estimator):
    """Two perfectly correlated bits have entropy log 2 = NELBO(x) for both x."""
    x_0 = torch.tensor([[0, 0], [1, 1]])
    bound = estimate_nelbo(CORRELATED_BITS.denoiser(estimator.process), x_0, estimator, draws=16, repeats=300)
    assert torch.all(bound.mean > math.log(2) - Z * bound.standard_error - 1e-9)
    if not isinstance(estimator, Steps):  # the T-step bound is above by (ℓ(1) − ℓ(0))/2T
        assert torch.all((bound.mean - math.log(2)).abs() <= Z * bound.standard_error + 1e-4)


@pytest.mark.parametrize("power", [1.0, 0.5])
@pytest.mark.parametrize("spread", SPREADS.values(), ids=SPREADS.keys())
def test_genmd4_estimator_is_unbiased(spread, power):
    process, x_0, groups, draws = Process(TokenPolynomial(W), 3), torch.tensor([2, 0, 1]), 4000, 8
    objective = partial(generalized_nelbo, process=process)
    denoiser = timed(LAW.denoiser(process))
    truth = exact_nelbo(denoiser, x_0, token_continuous_time(process, x_0), process, objective).total
    rows = x_0.expand(groups * draws, -1)
    draw = TokenTime(process, spread, power).draw(rows, Streams(2, len(rows)), strata=draws)
    total = objective(denoiser(process.hide(rows, draw.mask), draw.t)[draw.mask], rows, draw).total
    assert abs(z_score(total.view(groups, draws).mean(1), truth)) < Z


@pytest.mark.parametrize(
    "grid", [uniform_grid(6), uniform_grid(6)[:-1], uniform_grid(6)[1:]], ids=["to zero", "paper", "from below 1"]
)
def test_genmd4_t_step_estimator_is_unbiased(grid):
    process, x_0, groups, draws = Process(TokenPolynomial(W), 3), torch.tensor([2, 0, 1]), 2000, 8
    objective = partial(generalized_steps_nelbo, process=process)
    denoiser = timed(LAW.denoiser(process))
    truth = exact_nelbo(denoiser, x_0, token_steps(process, x_0, grid), process, objective).total
    rows = x_0.expand(groups * draws, -1)
    draw = TokenSteps(process, grid).draw(rows, Streams(2, len(rows)), strata=draws)
    total = objective(denoiser(process.hide(rows, draw.mask), draw.t)[draw.mask], rows, draw).total
    assert abs(z_score(total.view(groups, draws).mean(1), truth)) < Z


def test_the_estimator_brings_its_own_objective():
    """`estimate_nelbo` needs no objective: MD4's and GenMD4's estimators each find the truth."""
    x_0 = torch.tensor([[2, 0, 1]])
    scalar, token = Process(Linear(), 3), Process(TokenPolynomial(W), 3)
    for estimator in (ExactK(scalar), TokenTime(token), TokenSteps(token, uniform_grid(400))):
        bound = estimate_nelbo(LAW.denoiser(estimator.process), x_0, estimator, draws=32, repeats=200)
        assert abs(bound.mean.item() + LAW.log_prob(x_0).item()) < Z * bound.standard_error.item() + 0.01


def test_a_data_set_in_batches_has_independent_errors():
    """Numbered by `index`, sequences get the same estimate in any batch, and different ones different draws."""
    law = MarkovLaw.random(5, seed=1)
    process = Process(Linear(), 5)
    x_0 = law.draw(12, Streams(0, 8))
    whole = estimate_nelbo(law.denoiser(process), x_0, ExactK(process), draws=4, repeats=3)
    parts = [
        estimate_nelbo(
            law.denoiser(process), x_0[i : i + 2], ExactK(process), draws=4, repeats=3, index=torch.arange(i, i + 2)
        )
        for i in range(0, 8, 2)
    ]
    assert torch.equal(whole.mean, torch.cat([part.mean for part in parts]))
    same = estimate_nelbo(law.denoiser(process), x_0[:1].expand(8, -1), ExactK(process), draws=4, repeats=3)
    assert len(same.mean.unique()) == 8


def test_conditions_go_with_their_rows():
    """A denoiser that is told the answer must have no loss; told another row's, it would have."""
    process, x_0 = Process(Linear(), 4), torch.tensor([[0, 0], [1, 1], [2, 2]])

    def told(x_t, t, condition):  # noqa: ARG001
        return 50 * torch.nn.functional.one_hot(condition["answer"], 4).double()[:, None].expand(-1, 2, -1)

    bound = estimate_nelbo(told, x_0, ExactK(process), draws=5, repeats=2, condition={"answer": x_0[:, 0], "note": "x"})
    assert bound.mean.max() < 1e-9


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_rows_of_different_length_in_one_batch(dtype):
    law = MarkovLaw.random(4, seed=2)
    process = Process(Linear(), 4)
    lengths = torch.tensor([1, 3, 6, 6])
    x_0 = law.draw(6, Streams(0, 4)).to(dtype)
    valid = torch.arange(6) < lengths[:, None]
    truth = torch.stack([-law.log_prob(x[:n][None].long())[0] for x, n in zip(x_0, lengths, strict=True)])

    def denoiser(x_t, t, condition=None):
        logits = torch.zeros(*x_t.shape, 4, dtype=torch.float64)
        for n in lengths.unique():
            rows = condition == n
            if rows.any():
                logits[rows, :n] = law.denoiser(process)(x_t[rows, :n], t[rows])
        return logits

    for estimator in (ExactK(process), ExactK(process, paired), ExactK(process, balanced, PowerK())):
        bound = estimate_nelbo(denoiser, x_0, estimator, draws=8, repeats=150, valid=valid, condition=lengths)
        assert torch.all((bound.mean - truth).abs() < Z * bound.standard_error + 1e-9)


def test_standard_errors_are_honest():
    """Over 600 sequences of a chain the z-scores of the estimates have mean 0 and variance 1."""
    law = MarkovLaw.random(5, seed=1)
    process = Process(Linear(), 5)
    x_0 = law.draw(12, Streams(0, 600))
    bound = estimate_nelbo(law.denoiser(process), x_0, ExactK(process), draws=8, repeats=40, seed=1)
    z = (bound.mean + law.log_prob(x_0)) / bound.standard_error
    assert abs(z.mean()) < 5 / 600**0.5
    assert 0.75 < z.var() < 1.35  # a t-law of 39 degrees of freedom has variance 1.05; ±5 standard errors


def test_stratified_exact_k_needs_far_fewer_evaluations():
    """A quick guard on the ordering; the figures themselves are in benchmarks/results."""
    law = MarkovLaw.random(27, seed=0)
    process = Process(Linear(), 27)
    x_0 = law.draw(64, Streams(0, 8))
    error = {
        name: estimate_nelbo(law.denoiser(process), x_0, e, draws=16, repeats=16).standard_error.square().mean()
        for name, e in (("iid", ContinuousTime(process, iid)), ("stratified", ExactK(process, stratified)))
    }
    assert error["iid"] / error["stratified"] > 4


def test_fitted_baseline_keeps_the_bound_and_shrinks_its_error():
    zipf = MarkovLaw.random(9, seed=1).transition / torch.arange(1, 10)
    law = MarkovLaw.stationary(zipf / zipf.sum(1, keepdim=True))
    process = Process(Linear(), 9)
    denoiser, x_0 = law.denoiser(process), law.draw(48, Streams(0, 16))
    plain = ExactK(process, balanced, PowerK())
    surprise = fit_surprise(denoiser, law.draw(48, Streams(1, 64)), plain)
    assert surprise.shape == (9,)
    bounds = [estimate_nelbo(denoiser, x_0, e, repeats=60) for e in (plain, Controlled(plain, surprise, beta=1.0))]
    for bound in bounds:
        z = (bound.mean + law.log_prob(x_0)) / bound.standard_error
        assert abs(z.mean()) < Z / 16**0.5
    assert bounds[1].standard_error.square().mean() < 0.9 * bounds[0].standard_error.square().mean()


@dataclass(frozen=True)
class Halved(EstimatorWrapper):
    """An estimator whose network sees other tokens: halves of them."""

    exact = True

    def network_input(self, x_0, draw):
        return super().network_input(x_0, draw) // 2


def test_what_goes_around_an_estimator_keeps_what_it_does_not_change():
    process = Process(Linear(), 3)
    assert EstimatorWrapper(ExactK(process)).coverage() == 1
    assert not EstimatorWrapper(ExactK(process)).exact
    assert EstimatorWrapper(Halved(ExactK(process))).exact


def test_a_baseline_is_fitted_on_what_the_network_is_shown():
    process, seen = Process(Linear(), 8), []

    def denoiser(x_t, t, condition):
        del t, condition
        seen.append(x_t)
        return torch.zeros(*x_t.shape, 8)

    fit_surprise(denoiser, torch.full((4, 6), 7), Halved(ExactK(process)))
    assert {int(token) for x in seen for token in x.unique()} == {3, 4}  # 7 and the mask, 8, halved


def test_exact_k_form_is_what_exact_k_estimates():
    process, x_0 = Process(Linear(), 3), torch.tensor([0, 2, 1])
    denoiser = LAW.denoiser(process)
    bound = estimate_nelbo(denoiser, x_0[None], ExactK(process), draws=30, repeats=200)
    truth = exact_nelbo(denoiser, x_0, exact_k(process, x_0), process).total
    assert abs(bound.mean.item() - truth.item()) < Z * bound.standard_error.item()
