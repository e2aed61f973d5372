"""Stored results belong to what determined them: the weights, the data, and how much of it was measured."""

import json
import shutil
from dataclasses import replace
from functools import partial
from typing import ClassVar

import numpy as np
import pytest
import torch

from tests.small_models import trained
from unmask.cli import frontier as frontier_command
from unmask.cli.main import main
from unmask.data import Plan, prepare
from unmask.evaluation import find_text
from unmask.run import Run, evaluate, orders, zero_shot
from unmask.run.evaluate import Evaluation
from unmask.run.history import evaluations
from unmask.run.zero_shot import ZeroShot, ZeroShots
from unmask.training import checkpoint
from unmask.training.world import World

FEW = Evaluation("valid", draws=1, repeats=2, sequences=2)


@pytest.fixture
def run(subwords, tmp_path):
    """A copy of the run without any results."""
    shutil.copytree(subwords, tmp_path / "run", ignore=shutil.ignore_patterns("evals", "frontier"))
    return Run.open(tmp_path / "run")


def train_on(run):
    """A checkpoint arrives, with other weights."""
    last = checkpoint.load(checkpoint.newest(run.checkpoints), {})
    noise = torch.Generator().manual_seed(last.step)
    other = {name: x + 0.5 * torch.randn(x.shape, generator=noise) for name, x in last.weights.items()}
    moments = {"m": torch.zeros(1)}
    checkpoint.save(run.checkpoints, checkpoint.Snapshot(last.step + 1, other, other, moments, last.numbers))


def of_a_split(run):
    return evaluate.evaluate(run, FEW).document()


def of_orders(run):
    return orders.order_interval(run, FEW, 2)


def of_a_text(run):
    path = run.folder.parent / "text.txt"
    path.write_text("the dog sat on the mat. " * 20)
    return ZeroShots(run, FEW).measure(ZeroShot(find_text(str(path), None)))[1]


def of_questions(run):
    path = run.folder.parent / "q.jsonl"
    path.write_text(json.dumps({"question": "the cat", "choices": ["sat", "log"], "answer": 0}) + "\n")
    kept, _ = zero_shot.choices(run, path, FEW, whole=False, draws=1)
    (part,) = kept.with_suffix("").glob("part-*.json")
    return json.loads(kept.read_text()) | {"parts": json.loads(part.read_text())}


def of_samples(run):
    words = ["--split", "valid", "--samplers", "ancestral", "--steps", "2", "-n", "2", "--json"]
    assert main(["frontier", str(run.folder), *words]) == 0
    found = json.loads((run.folder / "frontier" / "frontier.json").read_text())
    return json.loads(json.dumps(found), object_hook=lambda d: {k: v for k, v in d.items() if k != "seconds"})


WAYS = {
    of_a_split: evaluate,
    of_orders: orders,
    of_a_text: zero_shot,
    of_questions: zero_shot,
    of_samples: frontier_command,
}
"""What is measured, and the module that loads the model for it."""


@pytest.mark.parametrize("measured", WAYS)
def test_figures_are_those_of_the_weights_they_name(measured, run, monkeypatch):
    """Checkpoints that arrive before and after the model is loaded change nothing; the next evaluation uses them."""
    expected = measured(run)
    for kept in ("evals", "frontier"):
        shutil.rmtree(run.folder / kept, ignore_errors=True)
    load = WAYS[measured].load

    def meanwhile(folder, **how):
        train_on(run)
        model = load(folder, **how)
        train_on(run)
        return model

    with monkeypatch.context() as patch:
        patch.setattr(WAYS[measured], "load", meanwhile)
        assert measured(run) == expected
    assert measured(run) != expected


def test_all_ranks_take_the_weights_of_the_first(run):
    class Second(World):
        said: ClassVar = []

        def broadcast(self, thing):
            assert thing is None
            return Second.said.pop(0)

    first = run.identity
    train_on(run)
    Second.said += 2 * [None, first]  # no error, and the name
    assert run.pinned(Second(1, 2)).identity == first != run.identity
    assert run.pinned(Second(1, 2)).chosen().name == first
    Second.said += ["the newest checkpoint is damaged"]
    with pytest.raises(OSError, match="is damaged"):
        run.pinned(Second(1, 2))
    shutil.rmtree(run.checkpoints)
    with pytest.raises(ValueError, match="has no checkpoint yet"):
        run.pinned()


def test_other_data_in_the_same_folder_is_measured_anew(tmp_path, capsys):
    text, data = tmp_path / "a.txt", tmp_path / "data"
    points = []

    def prepared(seed):
        shutil.rmtree(data, ignore_errors=True)
        text.write_text("".join(np.random.default_rng(seed).choice(list("abc"), size=600)))
        prepare(Plan(str(text), length=8, valid=0.2), data)

    prepared(0)
    run = Run.open(trained(data, tmp_path / "run"))
    first, between = evaluate.evaluate(run, FEW), orders.order_interval(run, FEW, 2)
    points.append(of_samples(run))
    prepared(1)
    again = evaluate.evaluate(run, FEW)
    assert again.per_token != first.per_token
    assert orders.order_interval(run, FEW, 2)["bound"] != between["bound"]
    assert of_samples(run) != points[0]
    prepared(0)
    assert evaluate.evaluate(run, FEW).name == first.name
    capsys.readouterr()


@pytest.mark.parametrize("measured", [evaluate.evaluate, partial(orders.order_interval, orders=2)])
def test_a_path_does_not_say_what_the_data_is(run, measured, tmp_path):
    """The run's own data and a copy elsewhere are the same: nothing is computed again."""
    measured(run, FEW)
    kept = {path.name for path in (run.results / "evals").iterdir()}
    shutil.copytree(run.config.data, tmp_path / "copy")
    measured(run, replace(FEW, data=str(tmp_path / "copy")))
    assert {path.name for path in (run.results / "evals").iterdir()} == kept


def test_a_damaged_result_is_named(run):
    orders.order_interval(run, FEW, 2)
    (path,) = (run.results / "evals").glob("orders-*.json")
    path.write_text(path.read_text()[:40])
    with pytest.raises(ValueError, match=f"{path} is damaged: got .*; delete it, and run the command again"):
        orders.order_interval(run, FEW, 2)


def test_a_few_do_not_replace_all(run, tmp_path):
    """Both are kept and distinguished; parts are shared."""
    wanted = Evaluation("train", draws=1, repeats=2)
    every = evaluate.evaluate(run, wanted)
    path = run.results / "evals" / f"{every.name}.json"
    before = path.read_bytes()
    few = evaluate.evaluate(run, Evaluation("train", draws=1, repeats=2, sequences=4))
    assert few.name == f"{every.name}-4-of-{every.of}"
    assert path.read_bytes() == before
    assert len(list((run.results / "evals" / every.name).glob("part-*.npz"))) == 2
    assert evaluate.evaluate(run, Evaluation("train", draws=1, repeats=2, sequences=10**6)).name == every.name
    first, whole = sorted((one.line for one in evaluations(run)), key=len, reverse=True)
    assert first.endswith(f"bits per token, 4 of {every.of} sequences")
    assert whole.endswith("bits per token")
    question = json.dumps({"question": "the cat", "choices": ["sat", "log"], "answer": 0})
    (tmp_path / "q.jsonl").write_text("\n".join([question] * 3))
    kept = {zero_shot.choices(run, tmp_path / "q.jsonl", how, whole=False, draws=1)[0] for how in (wanted, FEW)}
    assert [json.loads(path.read_text())["questions"] for path in sorted(kept)] == [2, 3]
    assert any(one.line.endswith(", 2 of 3 questions") for one in evaluations(run))
