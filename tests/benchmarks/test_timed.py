"""Trainings of a given time: as many steps as fit, the rate falling to its end, the bound of what was asked for."""

import json
import sys
from types import SimpleNamespace

import pytest

from benchmarks import explorations, text8_speedrun, timed
from benchmarks import record as records
from benchmarks.tables import likelihoods
from unmask.data import Dataset, Plan, prepare
from unmask.run import Run
from unmask.training import TrainingConfig

SMALL = ["--layers", "1", "--heads", "2", "--width", "16", "--batch-size", "4", "--seconds", "3"]


@pytest.fixture
def data(tmp_path, monkeypatch):
    """Text in three splits; results go to a folder of their own."""
    monkeypatch.setattr(records, "RESULTS", tmp_path)
    for split, count in {"train": 400, "valid": 40, "test": 40}.items():
        (tmp_path / f"{split}.txt").write_text("the cat sat on the mat " * count)
    prepare(Plan(str(tmp_path), length=32), tmp_path / "data")
    return tmp_path / "data"


def called(monkeypatch, main, *words):
    monkeypatch.setattr(sys, "argv", ["benchmark", *map(str, words)])
    main()


def test_a_recipe_of_text8_in_three_seconds(data, tmp_path, monkeypatch):
    exponents = ("--exponents", "0", "8")
    called(monkeypatch, text8_speedrun.main, "fast", data, tmp_path / "run", *SMALL, "--sequences", 8, *exponents)
    found = json.loads((tmp_path / "speedrun" / "fast-0.json").read_text())
    assert found["steps"] >= timed.COMPILED + timed.TIMED
    assert found["training_s"] > 1  # how exactly the time is kept is tested with a clock of our own below
    assert found["result"]["split"] == "valid"
    assert found["result"]["sequences"] == 8
    assert found["seen"]["split"] == "train"
    assert found["config"]["method"]["exponents"] == [[0, 8.0]]
    assert len(found["loss"]) == 50
    assert sum(found["loss"][-10:]) < sum(found["loss"][:10])
    assert Run.open(tmp_path / "run").config.training.steps == found["steps"]
    assert f"| {found['steps']:,} |" in likelihoods.experiments(found)
    assert f"| {found['tokens'] / 1e6:.2f} |" in likelihoods.text8_record(found)  # a token is a character here
    assert f"{found['result']['bits_per_token']['mean']:.3f} ±" in likelihoods.cifar10(found)


class Quickening:
    """Steps of ten milliseconds, and after the first sixty of four, on a clock of their own."""

    def __init__(self):
        self.config, self.done, self.now = TrainingConfig(steps=timed.NEVER), 0, 0.0

    def steps(self):
        while self.done < self.config.steps:
            self.done += 1
            self.now += 0.01 if self.done <= 60 else 0.004
            yield SimpleNamespace(step=self.done, loss=0.0, tokens=1)

    def clock(self):
        return self.now


def test_the_first_steps_may_be_slower_than_the_others():
    """The time is used nevertheless: by the first steps alone, training would end after 2 of 4 seconds."""
    trainer = Quickening()
    found = timed.trained(trainer, 4, trainer.clock)
    assert found.compile_s == pytest.approx(0.1)
    assert found.training_s == pytest.approx(4, abs=0.1)


def test_another_method_of_a_preset_on_the_test_split(data, tmp_path, monkeypatch):
    words = ("other/ar", data, tmp_path / "run", "--preset", "characters", "--method", "ar", *SMALL)
    called(monkeypatch, timed.main, *words, "--about", "a causal one")
    found = json.loads((tmp_path / "other" / "ar-0.json").read_text())
    assert found["config"]["network"]["causal"]
    assert found["result"]["split"] == "test"
    assert found["result"]["sequences"] == len(Dataset(data).split("test"))
    assert found["about"] == "a causal one"
    with pytest.raises(ValueError, match="unknown field: got --widht"):
        called(monkeypatch, timed.main, *words, "--widht", 3)


def test_changes_are_compared_with_a_base_of_their_seed(data, tmp_path, monkeypatch):
    """The table shows the bounds' difference."""
    runs = tmp_path / "runs"
    words = (data, runs, "--seconds", 1, "--sequences", 8, "--only", "bound", *SMALL[:-2])
    called(monkeypatch, explorations.main, *words)
    rows = [json.loads((tmp_path / f"explorations/subwords/{name}-0.json").read_text()) for name in ("base", "bound")]
    found = [row["result"]["bits_per_character"]["mean"] for row in rows]
    assert rows[0]["difference"]["mean"] == 0
    assert rows[1]["difference"]["mean"] == pytest.approx(found[1] - found[0])
    configs = [Run.open(runs / f"subwords-{name}-0").config.method.weighting for name in ("base", "bound")]
    assert configs == ["ce", "elbo"]
    assert f"| the bound's weights | {found[1] - found[0]:+.4f} ±" in likelihoods.explorations(*rows)
    called(monkeypatch, explorations.main, *words)  # nothing is trained again
    assert [
        json.loads((tmp_path / f"explorations/subwords/{name}-0.json").read_text()) for name in ("base", "bound")
    ] == rows


def test_fields_for_the_first_part_of_the_time(data, tmp_path, monkeypatch):
    """Shorter windows, then those of the data; the rate is what it would be in one piece: steady, then falling to 0."""
    words = ("staged", data, tmp_path / "run", *SMALL, "--sequences", 8, "--first=--length 16 --batch-size 8")
    called(monkeypatch, text8_speedrun.main, *words)
    found = json.loads((tmp_path / "speedrun" / "staged-0.json").read_text())
    first, then = (Run.open(tmp_path / name).config for name in ("run-first", "run"))
    assert (first.length, first.training.batch_size, first.training.rate.cooldown) == (16, 8, "none")
    assert (then.length, then.training.batch_size, then.training.rate.cooldown_share) == (None, 4, 1)
    assert then.start == str(tmp_path / "run-first")
    assert found["steps"] == first.training.steps + then.training.steps
    assert found["tokens"] == 128 * found["steps"]  # as many in each batch
    assert found["training_s"] > 1


def test_values_of_the_first_layer(data, tmp_path, monkeypatch):
    """As they were asked for when they were measured."""
    called(monkeypatch, text8_speedrun.main, "v", data, tmp_path / "run", *SMALL, "--network", "value-residuals")
    assert Run.open(tmp_path / "run").config.network.value_residuals


@pytest.mark.parametrize("recipe", explorations.RECIPES)
def test_every_trial_differs_from_its_base(data, tmp_path, recipe):
    """And is a training that can be asked for."""
    alike = explorations.Budget(recipe, str(data), tmp_path, 1, 8, [])
    asked = {trial: text8_speedrun.asked(alike.words(trial, 3)) for trial in explorations.RECIPES[recipe].trials}
    base = asked.pop("base")
    for trial, (config, options) in asked.items():
        assert (config, options.first) != (base[0], base[1].first), trial
        assert config.training.seed == 3
    assert len({repr((config, options.first)) for config, options in asked.values()}) == len(asked)


def test_trials_that_a_recipe_does_not_have(data, tmp_path, monkeypatch):
    words = (data, tmp_path / "runs", "--recipe", "characters", "--only", "untied")
    with pytest.raises(ValueError, match="unknown trial: got untied, allowed: base, uniform"):
        called(monkeypatch, explorations.main, *words)
