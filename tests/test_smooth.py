"""The moving average that training shows."""

import math

import numpy as np
import pytest

from unmask.cli.main import main
from unmask.cli.smooth import DECAY, Smooth
from unmask.data import Plan, prepare
from unmask.run import Run, train


def test_it_is_the_weighted_mean():
    values = np.random.default_rng(0).normal(size=40)
    weights = DECAY ** np.arange(39, -1, -1)
    found = Smooth(values)
    assert found.mean == pytest.approx(np.average(values, weights=weights), rel=1e-12)
    spread = weights @ (values - found.mean) ** 2 / (weights.sum() - (weights**2).sum() / weights.sum())
    assert found.error == pytest.approx(math.sqrt(spread * (weights**2).sum()) / weights.sum(), rel=1e-12)


@pytest.mark.parametrize("count", [2, 3, 10, 50, 200])
def test_its_error_is_right_from_the_second_value_on(count):
    """E error² = Var mean, of 20,000 sequences: the ratio of their estimates is within 5 of its standard errors, which
    are of at most 20,000 squares of normals each (with two values the error has one degree of freedom).
    """
    repeats = 20_000
    found = [Smooth(row) for row in np.random.default_rng(count).normal(3, 2, size=(repeats, count))]
    means = np.array([one.mean for one in found])
    squares = np.array([one.error**2 for one in found])
    ratio = squares.mean() / means.var(ddof=1)
    assert ratio == pytest.approx(1, abs=5 * math.sqrt(4 / repeats))


def test_of_one_value_no_error_is_known():
    assert math.isnan(Smooth().error)
    assert math.isnan(Smooth([2.0]).error)
    assert Smooth([2.0]).mean == 2


def test_training_that_goes_on_shows_what_it_would_have_shown(tmp_path, capsys):
    """The loss of late and its error, in a run that was stopped after seven steps."""
    (tmp_path / "a.txt").write_text("abcd" * 400)
    prepare(Plan(str(tmp_path / "a.txt"), length=16, valid=0.1, test=0.1), tmp_path / "data")
    small = {"steps": 20, "batch-size": 2, "layers": 1, "heads": 2, "width": 16, "preview": 0}
    fields = [word for name, value in small.items() for word in (f"--{name}", str(value))]

    def shown(out):
        assert main(["train", "--data", str(tmp_path / "data"), "--out", str(tmp_path / out), *fields]) == 0
        lines = [line for line in capsys.readouterr().out.splitlines() if "bits/token" in line]
        return [line.partition(",")[0] for line in lines]  # without the speed

    whole = shown("whole")
    assert len(whole) == 10
    assert all("±" in line for line in whole)
    for report in (reports := train(Run.open(tmp_path / "whole").config, tmp_path / "cut")):
        if report.step == 7:
            reports.close()
            break
    assert shown("cut") == whole[3:]
