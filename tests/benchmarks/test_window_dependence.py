"""Errors over windows and over blocks of them: alike for independent tokens, not where neighbours are alike."""

import numpy as np
import pytest

from benchmarks.window_dependence import row


def test_blocks_see_what_windows_do_not():
    """Noise has one error, which forty pieces know to 11 % (five standard deviations are allowed); a text whose level
    changes every 4,000 tokens has one that windows of 100 understate and ten blocks of 4,000 do not.
    """
    noise = np.random.default_rng(0).normal(size=1_600_000)
    alone = row(noise, 100, 40_000)
    assert alone["pieces"] == 40
    assert alone["error"] == pytest.approx(1 / 200, rel=5 * 0.11)
    assert alone["windows"]["error"] == pytest.approx(1 / 200, rel=0.05)
    assert alone["blocks"]["error"] == pytest.approx(1 / 200, rel=0.2)
    levels = np.random.default_rng(1).normal(size=400).repeat(4000)
    together = row(noise + levels, 100, 40_000)
    assert together["error"] == pytest.approx(0.1**0.5, rel=5 * 0.11)
    assert together["blocks"]["error"] == pytest.approx(0.1**0.5, rel=0.2)
    assert together["windows"]["error"] < 0.2 * 0.1**0.5
    assert together["windows"]["held"] < 0.5 < 0.8 < together["blocks"]["held"]
