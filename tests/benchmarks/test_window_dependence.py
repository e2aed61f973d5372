"""Errors over windows and over blocks of them: alike for independent tokens, not where neighbours are alike."""

import numpy as np
import pytest

from benchmarks.window_dependence import row


def test_blocks_see_what_windows_do_not():
    """Noise has one error, known exactly to 13 % by 32 blocks (five standard deviations are allowed); a text whose
    level changes every 20,000 tokens has one that windows of 100 understate.
    """
    noise = np.random.default_rng(0).normal(size=640_000)
    alone = row(noise, 100)
    assert alone["error_of_windows"] == pytest.approx(1 / 800, rel=0.05)
    assert alone["error_of_blocks"] == pytest.approx(1 / 800, rel=5 * 0.13)
    levels = np.random.default_rng(1).normal(size=32).repeat(20_000)
    together = row(noise + levels, 100)
    assert together["neighbours_correlate"] > 0.9
    assert together["error_of_blocks"] == pytest.approx(levels.reshape(32, -1)[:, 0].std(ddof=1) / 32**0.5, rel=0.05)
    assert together["error_of_blocks"] > 10 * together["error_of_windows"]
