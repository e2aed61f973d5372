"""Likelihoods on distributions whose truth is known: intervals cover it, bounds keep their order."""

import itertools
import math
from functools import partial

import numpy as np
import pytest
import torch
from scipy import stats

from tests.sampling.oracle import chain
from unmask.core import Cosine, Linear, Polynomial, Process, Streams, TokenPolynomial
from unmask.core.bound import nelbo_at_once
from unmask.evaluation import (
    Scores,
    Sequences,
    bits,
    chain_rule,
    compare,
    estimator_for,
    in_groups,
    order_bounds,
    per_unit,
    perplexity,
    repeats_for,
    score,
    surprise,
)
from unmask.evaluation.chain import mean_likelihood
from unmask.evaluation.continuation import Row, found_greedily
from unmask.sampling import Predictor

V, N, COUNT = 4, 8, 40
LAW = chain(V)
PROCESS = Process(Linear(), V)
X = LAW.draw(N, Streams(11, COUNT))
TRUTH = -LAW.log_prob(X)


def wrong(x, t, condition=None):
    """A denoiser that mixes the truth with a uniform guess: its bounds are strict."""
    logits = LAW.denoiser(PROCESS)(x, t, condition)
    return (0.7 * logits.softmax(-1) + 0.3 / V).log()


at_once = partial(score, nelbo_fn=nelbo_at_once)


def batches(size=16, x=X):
    return [Sequences(x[i : i + size], torch.arange(i, min(i + size, len(x)))) for i in range(0, len(x), size)]


def scores(denoiser=None, name="exact-k", steps=None, **options):
    estimator = estimator_for(PROCESS, name, steps)
    return Scores.joined(at_once(denoiser or LAW.denoiser(PROCESS), batches(), estimator, **options))


def of_windows(nats, *, neighbours):
    """Scores of as many windows of ten tokens each, without a Monte Carlo error."""
    return Scores(nats, np.zeros(len(nats)), np.full(len(nats), 10), 0, neighbours=neighbours)


@pytest.mark.parametrize("alike", [1, 20])
def test_neighbours_that_are_alike_do_not_narrow_an_interval(alike):
    """400 windows, of which `alike` at a time have one level: the truth, 0, lies in 95 of 100 intervals over blocks,
    and, where windows are alike, in fewer than 60 over windows. 2,000 texts; the binomial distribution exceeds the
    tolerance once in a million times.
    """
    noise = np.random.default_rng(alike)
    levels = noise.normal(size=(2000, 400 // alike)).repeat(alike, axis=1) + 0.5 * noise.normal(size=(2000, 400))

    def covered(neighbours):
        found = [per_unit(of_windows(one, neighbours=neighbours), np.full(400, 10)) for one in levels]
        assert {one.freedom for one in found} == {9 if neighbours else 399}
        return sum(low < 0 < high for low, high in (one.interval for one in found))

    least, most = stats.binom.ppf((1e-6, 1 - 1e-6), 2000, 0.95)
    assert least <= covered(neighbours=True) <= most
    assert (covered(neighbours=False) < 1200) == (alike > 1)


def test_blocks_are_of_neighbours_and_few_windows_stand_for_themselves():
    """25 windows in ten blocks of two or three; seven in seven. The error is that of the blocks' sums."""
    nats = np.random.default_rng(0).normal(5, 1, size=25)
    sums = [part.sum() - nats.mean() * len(part) for part in np.split(nats, [2, 5, 7, 10, 12, 15, 17, 20, 22])]
    found = per_unit(of_windows(nats, neighbours=True), np.full(25, 10))
    assert found.error == pytest.approx(math.sqrt(np.square(sums).sum() * 10 / 9) / 250)
    few = per_unit(of_windows(nats[:7], neighbours=True), np.full(7, 10))
    assert few == per_unit(of_windows(nats[:7], neighbours=False), np.full(7, 10))
    pair = compare(of_windows(nats, neighbours=True), of_windows(np.zeros(25), neighbours=True))
    assert (pair.error, pair.freedom) == (pytest.approx(found.error / math.log(2)), 9)


def test_scores_are_put_in_their_places():
    mixed = Scores(np.array([3.0, 1, 2]), np.array([0.3, 0.1, 0.2]), np.array([30, 10, 20]), 7, np.array([3, 1, 2]))
    found = mixed.in_order(np.array([8, 0, 5]))
    assert (found.nats.tolist(), found.error.tolist()) == ([1, 2, 3], [0.1, 0.2, 0.3])
    assert (found.tokens.tolist(), found.content.tolist(), found.calls) == ([10, 20, 30], [1, 2, 3], 7)


def test_the_oracles_bound_is_its_likelihood():
    """Within 5 Monte Carlo errors in the mean (false alarm 6e-7), and the error bars are plausible."""
    found = scores(draws=8, repeats=8)
    figure = per_unit(found, found.tokens)
    assert abs(figure.mean - TRUTH.mean().item() / N) < 5 * figure.monte_carlo
    assert 0 < figure.monte_carlo < figure.error < 0.2
    assert found.calls == COUNT * 64


def test_intervals_cover_the_truth_as_often_as_they_say():
    """Monte Carlo intervals of 1.96 errors in 40 repetitions: at least 28 of them (binomial, false alarm 4e-8)."""
    truth = TRUTH.mean().item() / N
    hits = 0
    for seed in range(40):
        found = scores(draws=2, repeats=8, seed=seed)
        figure = per_unit(found, found.tokens)
        hits += abs(figure.mean - truth) < 1.96 * figure.monte_carlo
    assert hits >= 28


def test_cutting_into_batches_changes_nothing():
    whole = Scores.joined(at_once(LAW.denoiser(PROCESS), batches(COUNT), estimator_for(PROCESS), draws=2, repeats=2))
    assert np.array_equal(whole.nats, scores(draws=2, repeats=2).nats)


def test_the_default_needs_fewer_calls_than_the_papers():
    """The means agree within 5 errors (false alarm 6e-7)."""
    ours, paper = scores(wrong, draws=4, repeats=8), scores(wrong, "paper", draws=4, repeats=8)
    assert (paper.error**2).mean() > 4 * (ours.error**2).mean()
    difference = per_unit(ours, ours.tokens).mean - per_unit(paper, paper.tokens).mean
    assert abs(difference) < 5 * math.hypot(
        per_unit(ours, ours.tokens).monte_carlo, per_unit(paper, paper.tokens).monte_carlo
    )


def test_steps_cost_what_theory_says():
    """L_T − L_∞ = (l(1) − l(0))/(2T) per token up to 1/T²: a T-step bound is above it, and approaches it."""
    continuous = per_unit(scores(draws=16, repeats=16), np.full(COUNT, N)).mean
    few, many = (per_unit(scores(steps=t, draws=16, repeats=16), np.full(COUNT, N)) for t in (4, 64))
    assert few.mean > continuous + 3 * few.monte_carlo
    assert abs(many.mean - continuous) < (few.mean - continuous) / 4


def test_paired_differences_have_smaller_errors():
    a, b = scores(draws=4, repeats=4), scores(wrong, draws=4, repeats=4)
    found = compare(b, a)
    assert found.mean > 3 * found.error
    assert found.error < 0.5 * found.unpaired_error
    with pytest.raises(ValueError, match="different sequences"):
        compare(a, Scores(a.nats[:3], a.error[:3], a.tokens[:3], 0))


def test_other_sequences_of_the_same_lengths_are_not_paired():
    def scored(tokens, valid=None):
        batch = Sequences(tokens, torch.arange(len(tokens)), valid)
        return Scores.joined(at_once(LAW.denoiser(PROCESS), [batch], estimator_for(PROCESS), draws=1, repeats=2))

    with pytest.raises(ValueError, match="different sequences: got 4 and 4 sequences that are not the same"):
        compare(scored(X[:4]), scored(X[[0, 1, 3, 2]]))
    assert compare(scored(X[:4]), scored(X[:4].int())).mean == 0
    short = torch.arange(N).expand(4, -1) < N - 1  # what comes after the end does not count
    other = torch.where(short, X[:4], (X[:4] + 1) % V)
    assert np.array_equal(scored(X[:4], short).content, scored(other, short).content)


def test_target_error_is_reached():
    pilot = scores(wrong, draws=2, repeats=4)
    target = 0.004
    found = scores(wrong, draws=2, repeats=repeats_for(pilot, 4, COUNT, target), seed=1)
    assert bits(per_unit(found, found.tokens)).monte_carlo < 1.3 * target


def test_units():
    found = Scores(np.array([2.0, 4.0]), np.zeros(2), np.array([2, 2]), 0)
    figure = per_unit(found, np.array([1, 2]))  # say characters
    assert figure.mean == 2
    assert figure.error == 0  # both cost 2 nats per character
    value, low, high = perplexity(per_unit(found, found.tokens))
    assert value == pytest.approx(math.exp(1.5))
    assert low < value < high
    assert bits(figure).mean == pytest.approx(2 / math.log(2))


@pytest.mark.parametrize("order", ["left-to-right", "random", "confidence"])
def test_the_chain_rule_of_the_oracle_is_exact_in_every_order(order):
    predict = Predictor(LAW.denoiser(PROCESS), V)
    found = chain_rule(predict, PROCESS, X, Streams(0, COUNT), order)
    torch.testing.assert_close(found, TRUTH)
    assert predict.calls == COUNT * N


def test_the_mean_over_orders_is_the_bound():
    """Within 10 errors, the larger one from 12 means: 11 degrees of freedom, false alarm 7e-7."""
    predict = Predictor(wrong, V)
    found = torch.stack([chain_rule(predict, PROCESS, X, Streams(0, COUNT, k)) for k in range(12)])
    bound = scores(wrong, draws=8, repeats=8)
    error = math.hypot((found.mean(1).std() / 12**0.5).item() / N, per_unit(bound, bound.tokens).monte_carlo)
    assert abs(found.mean().item() / N - per_unit(bound, bound.tokens).mean) < 10 * error


def overconfident(x, t, condition=None):
    """Overconfident, so that the order matters."""
    return 2.5 * LAW.denoiser(PROCESS)(x, t, condition).log_softmax(-1).clamp(min=-20)


def test_bounds_by_orders_keep_their_order():
    """The bound never rises with K: this is exact for groups of groups of the same orders, by Jensen's inequality."""
    predict, x = Predictor(overconfident, V), X[:16]
    nats = torch.stack([chain_rule(predict, PROCESS, x, Streams(2, 16, k)) for k in range(16)])
    by_k = [torch.stack([mean_likelihood(group) for group in nats.split(k)]).mean().item() for k in (1, 2, 4, 16)]
    assert by_k[0] > by_k[1] > by_k[2] > by_k[3]
    assert by_k[0] == pytest.approx(nats.mean().item())


def test_both_sides_of_the_likelihood():
    """The likelihood by all 24 orders of four tokens; bounds from both sides, 24 means over 60 seeds within 7 errors.

    59 degrees of freedom: false alarm below 1e-6 in all.
    """
    predict, x = Predictor(overconfident, V), X[:8, :4]
    orders = itertools.permutations(range(4))
    model = mean_likelihood(torch.stack([chain_rule(predict, PROCESS, x, Streams(0, 8), o) for o in orders]))
    found = [order_bounds(predict, PROCESS, x, orders=8, seed=seed) for seed in range(60)]
    for name, sign in (("lower", 1), ("upper", -1), ("elbo", -1)):
        values = torch.stack([getattr(f, name) for f in found])
        error = values.std(0) / 60**0.5
        assert (sign * (values.mean(0) - model) < 7 * error + 1e-9).all(), name
    assert torch.stack([f.elbo - f.upper for f in found]).min() >= -1e-9
    exact = order_bounds(Predictor(LAW.denoiser(PROCESS), V), PROCESS, X[:8], orders=2)
    torch.testing.assert_close(exact.upper, TRUTH[:8])
    torch.testing.assert_close(exact.lower, TRUTH[:8])


def clock(x, t, condition=None):
    """Uses the time and the number of masked tokens k: the first of two tokens costs log(1 + e^(k t))."""
    del condition
    return torch.stack([torch.zeros_like(t), t * (x == 2).sum(1)], -1)[:, None].expand(*x.shape, 2)


INVERSES = {  # the time at which a share is masked on average, written out
    "polynomial": (Polynomial(2.0), lambda share: share**0.5),
    "cosine": (Cosine(), lambda share: 2 / math.pi * math.asin(share)),
}


@pytest.mark.parametrize("name", INVERSES)
@pytest.mark.parametrize("order", ["left-to-right", "random", "confidence", (3, 0, 4, 1, 2)], ids=str)
def test_the_chain_rule_shows_the_time_at_which_so_many_are_masked(order, name):
    """With k of N left, α⁻¹(1 − k/N): from 1, where nothing is visible, to the time of one."""
    schedule, inverse = INVERSES[name]
    process, x_0 = Process(schedule, 2), torch.zeros(3, 5, dtype=torch.int64)
    truth = sum(math.log1p(math.exp(k * inverse(k / 5))) for k in range(1, 6))
    found = chain_rule(Predictor(clock, 2), process, x_0, Streams(0, 3), order)
    assert found.tolist() == pytest.approx([truth] * 3, rel=1e-12)


@pytest.mark.parametrize("name", INVERSES)
def test_groups_show_the_time_at_which_so_much_of_what_is_hidden_is_masked(name):
    """Three of four hidden and revealed in two steps, two of them first; in the second row one by one and all four."""
    schedule, inverse = INVERSES[name]
    rank = torch.tensor([[1, 0, 1, 2], [2, 1, 4, 3]])
    found = in_groups(Predictor(clock, 2), Process(schedule, 2), torch.zeros(2, 4, dtype=torch.int64), rank)
    truth = [
        sum(math.log1p(math.exp(k * inverse(k / hidden))) for k in left)
        for left, hidden in (((3, 3, 1), 3), ((4, 3, 2, 1), 4))
    ]
    assert found.tolist() == pytest.approx(truth, rel=1e-12)


@pytest.mark.parametrize(
    ("schedule", "share"),
    [
        (Polynomial(2.0), lambda t: t**2),
        (Cosine(), lambda t: (math.pi / 2 * t).sin()),
        (TokenPolynomial(torch.full((5,), 2.0).double()), lambda t: t),
    ],
    ids=["polynomial", "cosine", "GenMD4, by the linear schedule"],
)
def test_greedy_decoding_shows_the_time_at_which_so_much_of_the_end_is_masked(schedule, share):
    """A network that predicts, everywhere, how many quarters are masked: four positions are filled with 4, 3, 2, 1 from
    the left, two with 4, 2, whatever is visible before them.
    """

    def quarters(x, t, condition=None):
        del condition
        said = torch.nn.functional.one_hot((4 * share(t)).round().long(), 5).double()
        return 9 * said[:, None].expand(*x.shape, 5)

    ends = [[4, 3, 2, 1], [4, 2], [4, 3], [4]]
    rows = [Row(torch.tensor([0] * (6 - len(end)) + end), 6 - len(end)) for end in ends]
    found = found_greedily(Predictor(quarters, 5), Process(schedule, 5), rows, torch.device("cpu"))
    assert found.tolist() == [True, True, False, True]


def test_surprise_adds_up_to_the_bound():
    predict = Predictor(wrong, V)
    share = surprise(predict, X[:8], estimator_for(PROCESS), draws=16, repeats=16)
    found, error = share.nats, share.error
    assert found.shape == (8, N)
    bound = scores(wrong, draws=16, repeats=16).nats[:8]
    spread = (error**2).sum(1).sqrt().numpy()
    assert (np.abs(found.sum(1).numpy() - bound) < 6 * np.hypot(spread, 0.05)).all()


def test_the_error_of_a_sum_is_that_of_the_sum():
    """Positions of one draw share its mask: over 200 seeds the sums scatter as their errors predict.

    Both spreads are known to 5 % or better, so a difference of 25 % is 5 of their errors (false alarm 6e-7).
    """
    predict, estimator = Predictor(wrong, V), estimator_for(PROCESS)
    found = [surprise(predict, X[:1], estimator, draws=2, repeats=8, seed=seed) for seed in range(200)]
    sums = torch.stack([f.nats.sum() for f in found])
    claimed = torch.stack([f.total_error**2 for f in found]).mean().sqrt()
    assert claimed.item() == pytest.approx(sums.std().item(), rel=0.25)
    for draws, repeats in ((0, 2), (1, 1)):
        with pytest.raises(ValueError, match=r"(draws|repeats) is too small"):
            surprise(predict, X[:1], estimator, draws=draws, repeats=repeats)


def test_unknown_names():
    with pytest.raises(ValueError, match="unknown estimator"):
        estimator_for(PROCESS, "best")
    with pytest.raises(ValueError, match="unknown order"):
        chain_rule(Predictor(wrong, V), PROCESS, X, Streams(0, COUNT), "backwards")
    with pytest.raises(ValueError, match="the order is not a permutation"):
        chain_rule(Predictor(wrong, V), PROCESS, X, Streams(0, COUNT), [0, 0, 1])
    with pytest.raises(ValueError, match="nothing to evaluate"):
        Scores.joined([])
