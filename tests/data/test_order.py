import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from unmask.data.order import permute, rows_of_step, spread


@given(size=st.integers(1, 3000), key=st.integers(0, 2**63 - 1))
def test_a_permutation_hits_every_row_once(size, key):
    assert np.array_equal(np.sort(permute(np.arange(size), size, key)), np.arange(size))


def test_permutations_look_random():
    """Positions of one row under 20,000 keys are uniform (chi-square, false alarm 1e-6); neighbours are not tied."""
    keys = np.arange(20_000)
    first, second = (permute(np.full(len(keys), i), 10, keys) for i in (0, 1))
    assert stats.chisquare(np.bincount(first, minlength=10)).pvalue > 1e-6
    pairs = np.bincount(first * 10 + second, minlength=100).reshape(10, 10)
    assert np.trace(pairs) == 0
    assert stats.chisquare(pairs[~np.eye(10, dtype=bool)]).pvalue > 1e-6


@given(size=st.integers(1, 200), batch=st.integers(1, 64), seed=st.integers(0, 1000))
def test_epochs_are_without_replacement(size, batch, seed):
    steps = 2 * size // batch + 2
    pairs = [rows_of_step(size, seed, step, batch) for step in range(steps)]
    epoch, rows = np.concatenate([p[0] for p in pairs]), np.concatenate([p[1] for p in pairs])
    for e in (0, 1):
        assert np.array_equal(np.sort(rows[epoch == e]), np.arange(size))


def test_epochs_and_seeds_differ():
    orders = [rows_of_step(1000, seed, step, 1000)[1] for seed in (0, 1) for step in (0, 1)]
    for i in range(4):
        for j in range(i):
            assert (orders[i] == orders[j]).mean() < 0.02


def test_ranks_share_the_batch_of_one_process():
    whole = rows_of_step(1000, 3, 17, 24)[1]
    parts = [rows_of_step(1000, 3, 17, 24, rank, 4)[1] for rank in range(4)]
    assert np.array_equal(whole, np.concatenate(parts))


def test_mistakes():
    with pytest.raises(ValueError, match="got 10 rows for 3 ranks, allowed: a multiple of 3"):
        rows_of_step(100, 0, 0, 10, 0, 3)
    with pytest.raises(ValueError, match="there are no rows"):
        rows_of_step(0, 0, 0, 10)


@given(size=st.integers(1, 3000), few=st.integers(1, 3000))
def test_some_rows_lie_evenly_over_all(size, few):
    """Every row comes once. However many rows come first, any stretch holds its share of them, up to the discrepancy
    of the van der Corput sequence: log₂ of their number, and one for each end.
    """
    every, first = spread(size, size), spread(size, few)
    assert np.array_equal(np.sort(every), np.arange(size))
    assert np.array_equal(first, every[:few])
    share = np.searchsorted(np.sort(first), np.arange(size + 1)) - len(first) * np.arange(size + 1) / size
    assert np.abs(share).max() <= 2 + np.log2(len(first) + 1)
