"""What the tests of runs share."""

import numpy as np
import pytest

from unmask.data import Plan, prepare


@pytest.fixture(scope="session")
def text(tmp_path_factory):
    """Prepared text in which every second character is determined by the one before."""
    folder = tmp_path_factory.mktemp("text")
    letters = np.random.default_rng(0).choice(list("abcd"), size=6000)
    (folder / "a.txt").write_text("".join(c + c.upper() for c in letters))
    prepare(Plan(str(folder / "a.txt"), length=32), folder / "data")
    return str(folder / "data")
