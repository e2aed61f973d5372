"""Training that begins with the weights of a model."""

import shutil
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

from tests import processes
from tests.small_models import trained
from unmask.data import Plan, prepare
from unmask.run import Run, finetuning_config, load, train
from unmask.run.train import build_trainer


@pytest.fixture(scope="module")
def other(letters, tmp_path_factory):
    """Other text in the model's vocabulary: the pairs in reverse."""
    folder = tmp_path_factory.mktemp("other")
    (folder / "b.txt").write_text("AaBbCcDd" * 400)
    prepare(Plan(str(folder / "b.txt"), vocabulary=str(letters / "vocabulary.json")), folder / "data")
    return str(folder / "data")


def test_it_begins_with_the_averaged_weights(letters, other, tmp_path):
    trainer = build_trainer(finetuning_config(str(letters), other), tmp_path, torch.device("cpu"))
    given, begun = load(letters, device="cpu").method.state_dict(), trainer.method.state_dict()
    assert all(torch.equal(given[name], begun[name]) for name in given)
    assert trainer.train.shape == (16,)


def test_it_learns_the_other_data(letters, other, tmp_path):
    """From the command line: the bound of the new data falls, and the run goes on when it is stopped."""
    command = [sys.executable, "-m", "unmask", "train", "--start", letters, "--data", other, "--out", tmp_path / "run"]
    flags = ["--steps", "60", "--validate-every", "20", "--preview", "0", "--rate", "0.003"]
    processes.run([*command, *flags], check=True, capture_output=True)
    bounds = [line["validation"]["mean"] for line in Run.open(tmp_path / "run").metrics() if "validation" in line]
    assert bounds[-1] < bounds[0]
    assert load(tmp_path / "run", device="cpu").vocabulary == load(letters, device="cpu").vocabulary


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--layers", "3"], "has another network: got layers: 2 → 3, allowed"),
        (["--schedule", "cosine"], "has another method"),
        (["--size", "3m"], "--start sets everything but the data: got 3m"),
    ],
)
def test_mistakes(letters, other, tmp_path, flags, says):
    command = [sys.executable, "-m", "unmask", "train", "--start", letters, "--data", other, "--out", tmp_path / "run"]
    done = processes.run([*command, *flags], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert says in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_vocabulary_must_be_the_models(letters, tmp_path):
    (tmp_path / "c.txt").write_text("stuvwxyz" * 500)
    prepare(Plan(str(tmp_path / "c.txt")), tmp_path / "data")
    with pytest.raises(ValueError, match=r"has another vocabulary.*--vocabulary"):
        next(train(finetuning_config(str(letters), str(tmp_path / "data")), tmp_path / "run", torch.device("cpu")))


def test_a_run_that_has_begun_needs_its_model_no_more(letters, other, tmp_path):
    """From its checkpoint it goes on by itself."""
    shutil.copytree(letters, tmp_path / "model")
    setup = finetuning_config(str(tmp_path / "model"), other)
    setup = replace(setup, training=replace(setup.training, steps=4, preview=0))
    reports = train(setup, tmp_path / "run", torch.device("cpu"))
    next(reports)
    reports.close()
    shutil.rmtree(tmp_path / "model")
    list(train(setup, tmp_path / "run", torch.device("cpu")))
    assert len(Run.open(tmp_path / "run").metrics()) == 4
    with pytest.raises(ValueError, match="model is not a run or a model"):
        next(train(setup, tmp_path / "another", torch.device("cpu")))


def test_rows_of_equal_length_go_on_as_they_are(tmp_path):
    """Their length is that of the data, and not a choice."""
    for name in ("a", "b"):
        np.save(tmp_path / f"{name}.npy", np.random.default_rng(ord(name)).integers(0, 5, (60, 12)))
        prepare(Plan(str(tmp_path / f"{name}.npy"), vocabulary="integers:5"), tmp_path / name)
    model = trained(tmp_path / "a", tmp_path / "model")
    config = finetuning_config(str(model), str(tmp_path / "b"))
    run = train(replace(config, training=replace(config.training, steps=2, preview=0)), tmp_path / "run")
    assert len(list(run)) == 2
