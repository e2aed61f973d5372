"""Distances and statistics against independent arithmetic."""

import math

import numpy as np
import pytest
from scipy import linalg, stats

from unmask.evaluation.checkers import balanced_brackets, if_valid
from unmask.evaluation.distances import frechet, kernel_distance, mauve, precision_recall, squared_mmd
from unmask.evaluation.intervals import student95, wilson
from unmask.evaluation.resampling import jackknife
from unmask.evaluation.sample_metrics import Samples, frequencies_near, variety
from unmask.evaluation.statistics import Share, statistics, validity

RNG = np.random.default_rng(0)
A = RNG.normal(size=(400, 6))
B = RNG.normal(size=(300, 6)) @ RNG.normal(size=(6, 6)) + 0.5


def test_frechet_is_scipys():
    root = linalg.sqrtm(np.cov(A, rowvar=False) @ np.cov(B, rowvar=False)).real
    expected = ((A.mean(0) - B.mean(0)) ** 2).sum() + np.trace(
        np.cov(A, rowvar=False) + np.cov(B, rowvar=False) - 2 * root
    )
    assert frechet(A, B) == pytest.approx(expected, rel=1e-6)
    assert frechet(A, A) == pytest.approx(0, abs=1e-9)


def test_frechet_of_gaussians_is_known():
    """N(0, 1) against N(m, s²) in one dimension: m² + (1 − s)²."""
    x = RNG.normal(size=(200_000, 1))
    assert frechet(x, 2 + 3 * RNG.normal(size=(200_000, 1))) == pytest.approx(4 + 4, rel=0.02)


def test_kernel_distance_is_the_sum_over_pairs():
    a, b = A[:40], B[:40]

    def k(x, y):
        return (x @ y / 6 + 1) ** 3

    pairs = [(i, j) for i in range(40) for j in range(40) if i != j]
    expected = np.mean([k(a[i], a[j]) + k(b[i], b[j]) for i, j in pairs]) - 2 * np.mean(
        [[k(x, y) for y in b] for x in a]
    )
    assert kernel_distance(a, b)[0] == squared_mmd(a, b) == pytest.approx(expected)


def test_the_error_of_a_kernel_distance_is_the_jackknifes():
    """All samples but one, in turn; by hand."""
    data, samples = A[:40], B[:30]
    without = [squared_mmd(data, np.delete(samples, i, axis=0)) for i in range(30)]
    assert kernel_distance(data, samples)[1] == pytest.approx((29 * np.var(without)) ** 0.5)
    assert kernel_distance(data, samples[:3])[1] > 0
    assert math.isnan(kernel_distance(data, samples[:2])[1])


@pytest.mark.parametrize("shift", [0, 0.3])
def test_the_interval_of_a_kernel_distance_holds_the_truth(shift):
    """Samples x from N(0, 1)^16 and any data y: E (x·y/16 + 1)³ = 1 + 3|y|²/16², E (x·x'/16 + 1)³ = 1 + 3/16.

    200 repetitions with new data and samples, from one distribution and from two. Correct intervals, which hold the
    truth in 92 to 96 % since they are asymptotic, fail with probability 3e-4.
    """
    rng, hits = np.random.default_rng(0), 0
    for _ in range(200):
        data, samples = shift + rng.normal(size=(200, 16)), rng.normal(size=(200, 16))
        k = (data @ data.T / 16 + 1) ** 3
        within = (k.sum() - np.trace(k)) / (200 * 199)
        truth = 1 + 3 / 16 + within - 2 * (1 + 3 * (data**2).sum(1) / 16**2).mean()
        value, error = kernel_distance(data, samples)
        hits += abs(value - truth) < 1.96 * error
    assert 170 <= hits < 200  # and errors are not far too large


def test_the_same_law_is_not_told_apart():
    """Given the data, its own deviation counts as a distance too: with as many data as samples 93 % hold 0.

    100 repetitions; even 90 % would fail with a probability of only 1e-3.
    """
    rng = np.random.default_rng(0)
    found = [kernel_distance(*rng.normal(size=(2, 200, 16))) for _ in range(100)]
    assert sum(abs(value) < 1.96 * error for value, error in found) >= 80


def test_precision_and_recall():
    """Samples from half of the data's support: nearly all within, about half covered."""
    data = RNG.uniform(size=(800, 2))
    half = RNG.uniform(size=(800, 2)) * [0.5, 1]
    precision, recall = precision_recall(data, half)
    assert precision > 0.9
    assert 0.4 < recall < 0.65
    assert precision_recall(data, data + 100) == (0, 0)


def test_mauve_of_a_set_with_itself_is_one():
    assert mauve(A, A, seeds=8).mean == pytest.approx(1, abs=1e-9)


def test_mauve_knows_same_from_different():
    same = mauve(A[:200], A[200:])
    other = mauve(A[:200], A[200:] + 8)
    assert same.mean > 0.8
    assert other.mean < 0.05
    assert same.spread < 0.2


def test_mauve_does_not_depend_on_the_lengths_of_features_or_on_small_directions():
    rng = np.random.default_rng(3)
    a, b = rng.normal(size=(200, 6)) + 1, rng.normal(size=(200, 6)) + 1.5
    plain = mauve(a, b)
    scales = [rng.uniform(0.1, 10, size=(200, 1)) for _ in range(2)]
    assert mauve(a * scales[0], b * scales[1]).mean == pytest.approx(plain.mean, abs=1e-9)
    noise = [1e-3 * rng.normal(size=(200, 20)) for _ in range(2)]
    noisy = mauve(*(np.concatenate(pair, axis=1) for pair in zip((a, b), noise, strict=True)))
    assert noisy.mean == pytest.approx(plain.mean, abs=0.02)


def test_mauve_of_two_known_histograms():
    """Two clusters far apart: the area by direct integration of the frontier."""
    data = np.repeat([[0.0], [100.0]], [70, 30], axis=0)
    samples = np.repeat([[0.0], [100.0]], [40, 60], axis=0)
    p, q = np.array([0.7, 0.3]), np.array([0.4, 0.6])
    points = []
    for weight in np.linspace(1e-6, 1 - 1e-6, 20_001):
        r = weight * p + (1 - weight) * q
        points.append((math.exp(-5 * (q * np.log(q / r)).sum()), math.exp(-5 * (p * np.log(p / r)).sum())))
    x, y = np.array([(1.0, 0.0), *points[::1], (0.0, 1.0)]).T
    order = np.argsort(x, kind="stable")
    x, y = x[order], y[order]
    expected = (np.diff(x) * (y[1:] + y[:-1]) / 2).sum()
    assert mauve(data, samples, clusters=2, seeds=3).mean == pytest.approx(expected, abs=5e-3)


def test_statistics_of_text():
    found = statistics(["abab", "cdcd"])
    assert found.entropy == pytest.approx(2)
    assert found.distinct == pytest.approx(4 / 6)
    assert statistics(["aaaaaaaa"]).repeated == pytest.approx(4 / 5)
    with pytest.raises(ValueError, match="there are no samples"):
        statistics([])


def test_validity():
    found = validity(["()", "()", "[", "([])"], if_valid(balanced_brackets), known={"()"})
    assert (found.valid.value, found.valid.of) == (0.75, 4)
    assert (found.unique.value, found.unique.of) == (pytest.approx(2 / 3), 3)
    assert (found.novel.value, found.novel.of) == (0.5, 2)
    assert found.valid.error == pytest.approx((4 / 6 * 2 / 6 / 4) ** 0.5)
    assert Share(1.0, 100).interval == pytest.approx((100 / (100 + 1.96**2), 1.0), abs=1e-4)
    assert Share(1.0, 100).error == pytest.approx(Share(0.0, 100).error) == pytest.approx(0.0098, abs=1e-4)
    assert not balanced_brackets("(]")
    assert not balanced_brackets(")")


@pytest.mark.parametrize("n", [10, 100])
@pytest.mark.parametrize("p", [0.02, 0.3, 0.5, 0.97])
def test_the_interval_of_a_share_holds_the_truth(n, p):
    """By the binomial distribution itself: all shares of n samples, each with its probability."""
    held = 0.0
    for part in range(n + 1):
        low, high = Share(part / n, n).interval
        assert 0 <= low <= part / n <= high <= 1
        held += math.comb(n, part) * p**part * (1 - p) ** (n - part) * (low <= p <= high)
    assert held > 0.9


def test_features_must_fit():
    with pytest.raises(ValueError, match="features do not match"):
        frechet(A, B[:, :3])


def test_the_jackknife_knows_the_error_of_a_mean():
    """Groups of one: exactly the standard error. Fréchet's, over sets drawn anew: within a factor of 1.5."""
    values = RNG.normal(size=(50, 1))
    mean, error = jackknife(np.mean, values, groups=25)
    assert mean == pytest.approx(float(values.mean()))
    pairs = values.reshape(25, 2).mean(1)
    assert error == pytest.approx(float(pairs.std(ddof=1)) / 5)
    found = [jackknife(lambda x: frechet(x, A), RNG.normal(0.5, 1, size=(200, 6))) for _ in range(60)]
    spread = np.std([value for value, _ in found])
    assert 1 / 1.5 < np.mean([error for _, error in found]) / spread < 1.5
    with pytest.raises(ValueError, match="too few samples"):
        jackknife(np.mean, values[:8])


def test_several_figures_of_samples_that_are_no_array():
    rows = ["a", "bb", "ccc", "dddd"]
    value, error = jackknife(lambda rows: (len(rows), sum(map(len, rows)) / len(rows)), rows, groups=2)
    assert value.tolist() == [4, 2.5]
    assert error.tolist() == pytest.approx([0, 1.0])  # two groups, of means 1.5 and 3.5


def test_the_bias_of_few_samples_is_not_in_the_error():
    """The number of samples, a statistic of pure bias, has no error, even where groups do not divide it."""
    for count in (20, 23, 29):
        assert jackknife(len, np.zeros(count))[1] == 0
    values = RNG.normal(size=29)
    left = np.array([np.delete(values, np.s_[2 * g : 2 * g + 2]).mean() for g in range(10)])  # 9 are in all of them
    assert jackknife(np.mean, values)[1] == pytest.approx(np.sqrt(27 / 20 * ((left - left.mean()) ** 2).sum()))


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 9, 19, 100])
def test_students_law_is_scipys(freedom):
    assert student95(freedom) == pytest.approx(stats.t.ppf(0.975, freedom), rel=0.01)


def test_the_interval_of_every_figure_of_a_text_is_that_of_other_samples():
    """Rows of one of two sources, so that rows count and not tokens. 200 sets of samples: the intervals are as wide as
    the values scatter, and hold their mean in 95 % of the cases. A spread of 200 has an error of 5 %; correct intervals
    are off by 25 % of it, or hold less than 85 %, with a probability below 1e-6.
    """
    rng = np.random.default_rng(0)
    common, rare = (shares / shares.sum() for shares in (np.arange(1.0, 31) ** -2, np.arange(1.0, 31) ** -0.5))
    near = frequencies_near(rng.choice(30, 20_000, p=common), 30)  # not the same: there |p − q| has a kink

    def drawn():
        rows = [rng.choice(30, 30, p=(common, rare)[rng.integers(2)]) for _ in range(40)]
        return variety(Samples(rows, [])) | near(Samples(rows, []))

    found = [drawn() for _ in range(200)]
    for name in found[0]:
        value, low, high = np.array([(one[name].value, one[name].low, one[name].high) for one in found]).T
        assert (high - low).mean() / (2 * student95(19)) == pytest.approx(value.std(), rel=0.25), name
        assert ((low < value.mean()) & (value.mean() < high)).mean() > 0.85, name


def test_shares_stay_within_their_bounds_and_are_never_certain():
    """Nothing repeated in any sample, or everything: each sample is then one trial."""
    rng = np.random.default_rng(0)
    never, always = Samples([rng.permutation(40) for _ in range(24)], []), Samples([np.zeros(40, int)] * 24, [])
    for samples, value, (low, high) in ((never, 0, wilson(0, 24)), (always, 36 / 37, wilson(36 / 37, 24))):
        found = variety(samples)["repeated 4-grams"]
        assert (found.value, found.low, found.high) == pytest.approx((value, low, high))
        assert found.low < found.high
    rare = Samples([np.zeros(5, int), *(rng.permutation(40) for _ in range(23))], [])
    found = variety(rare)["repeated 4-grams"]
    assert 0 <= found.low < found.value < found.high


def test_few_samples_have_no_interval():
    rows = [np.arange(5)] * 7
    assert {one.low for one in variety(Samples(rows, [])).values()} == {None}
    assert None not in {one.low for one in variety(Samples([*rows, np.arange(5)], [])).values()}
