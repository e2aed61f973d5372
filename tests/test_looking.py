"""Looking at what there is: unmask info and unmask plot on real folders."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import unmask
from tests.commands import command
from tests.small_models import trained
from unmask.cli.figures import revealed_per_step, smoothed
from unmask.cli.plot import symbols
from unmask.core import Linear, Polynomial, TokenPolynomial
from unmask.data.vocabulary import Bytes, Characters
from unmask.run import Run, export, find_model, train
from unmask.run.history import History, evaluations
from unmask.sampling import SAMPLERS


@pytest.fixture(scope="module")
def generalized(letters, tmp_path_factory):
    folder = tmp_path_factory.mktemp("generalized") / "run"
    return trained(letters.parent / "data", folder, method="genmd4", steps=6, validate_every=2)


def test_info_of_a_run(letters, capsys):
    code, out, _ = command(capsys, "info", letters)
    assert code == 0
    for words in ("a run", "MD4", "8 characters", "300 of 300 steps", "held-out bound", "step-00000300", "unmask eval"):
        assert words in out
    document = json.loads(command(capsys, "info", letters, "--json")[1])
    assert document["kind"] == "run"
    assert document["parameters"] == sum(p.numel() for p in unmask.load(letters).method.parameters())
    last = Run(letters).metrics()[-1]["validation"]
    assert document["history"]["held_out"] == last
    assert document["history"]["loss"] == pytest.approx(np.mean([m["loss"] for m in Run(letters).metrics()[-50:]]))


def test_the_samplers_that_info_names_are_those_that_work(letters, generalized, pictures, capsys):
    for folder in (letters, generalized, pictures):
        named = json.loads(command(capsys, "info", folder, "--json")[1])["samplers"]
        model = unmask.load(folder)
        for sampler in SAMPLERS:
            try:
                model.sample(1, sampler=sampler, steps=2)
                assert sampler in named
            except ValueError:
                assert sampler not in named


def test_info_of_a_run_that_is_not_done(letters, tmp_path, capsys):
    """It says how to go on, and that works; half a line of metrics does not matter."""
    config = Run(letters).config
    config = replace(config, training=replace(config.training, steps=4, save_every=1, validate_every=2))
    reports = train(config, tmp_path / "run", torch.device("cpu"))
    for report in reports:
        if report.step == 2:
            break
    reports.close()
    with (tmp_path / "run" / "metrics.jsonl").open("a") as file:
        file.write('{"step": 3, "lo')
    code, out, _ = command(capsys, "info", tmp_path / "run")
    assert code == 0
    assert "2 of 4 steps" in out
    assert "unmask train --out" in out
    assert command(capsys, "train", "--out", tmp_path / "run")[0] == 0
    assert History.of(Run(tmp_path / "run")).step == 4


def test_info_of_a_run_that_has_only_begun(letters, tmp_path, capsys):
    Run.start(tmp_path / "run", Run(letters).config)
    code, out, _ = command(capsys, "info", tmp_path / "run")
    assert code == 0
    assert "0 of 300 steps" in out
    assert "none yet" in out


def test_info_of_a_model(letters, pictures, tmp_path, capsys):
    export(find_model(letters), tmp_path / "m", dtype="bf16")
    code, out, _ = command(capsys, "info", tmp_path / "m")
    assert code == 0
    for words in ("a model", "averaged, bf16", "step 300 of 300", "± ", "running text, 16 tokens", "kB"):
        assert words in out
    export(find_model(pictures), tmp_path / "p")
    document = json.loads(command(capsys, "info", tmp_path / "p", "--json")[1])
    assert document["rows"] == "images of 4 × 4"
    assert document["classes"] == ["0", "1", "2"]
    assert document["bytes"] == sum(path.stat().st_size for path in (tmp_path / "p").iterdir())


def test_info_of_data_is_that_of_data_info(letters, capsys):
    data = letters.parent / "data"
    for flags in ([], ["--json"], ["--examples", "1"]):
        assert command(capsys, "info", data, *flags) == command(capsys, "data", "info", data, *flags)


def test_info_of_anything_else_says_what_it_looked_for(tmp_path, capsys):
    for target, said in ((tmp_path, "neither manifest.json"), (tmp_path / "x", "no such folder")):
        code, _, err = command(capsys, "info", target)
        assert code == 2
        assert said in err
        assert err.count("\n") == 1


def test_every_kind_of_result_is_a_line(subwords, tmp_path, capsys):
    """Real evaluations, as their commands write them."""
    folder = Path(shutil.copytree(subwords, tmp_path / "run"))
    shutil.rmtree(folder / "evals", ignore_errors=True)
    question = {"question": "the cat", "choices": ["sat", "log"], "answer": 0}
    (tmp_path / "text.txt").write_text("the dog sat on the mat. " * 20)
    (tmp_path / "q.jsonl").write_text(json.dumps(question) + "\n")
    few = ("--draws", "1", "--repeats", "2")
    for words in (
        few,
        (*few, "--steps", "4"),
        ("--orders", "2"),
        ("--choices", tmp_path / "q.jsonl", "--draws", "1"),
        (*few, "--text", tmp_path / "text.txt"),
    ):
        code, _, err = command(capsys, "eval", folder, *words, "--sequences", "2", "--json")
        assert code == 0, err
    found = [one.line for one in evaluations(Run.open(folder))]
    assert len(found) == len(list((folder / "evals").glob("*.json"))) == 5
    for words in ("test: ", "test, 4 steps: ", "test, 2 orders: ", "q.jsonl: accuracy", "text.txt: perplexity"):
        assert any(line.startswith(words) for line in found), words
    (folder / "evals" / "a.json").write_text('{"accuracy": "high"}')
    (folder / "evals" / "b.json").write_text("[1, 2]")
    strange = [f"{name}: a result of another kind" for name in ("a.json", "b.json")]
    assert [one.line for one in evaluations(Run.open(folder))[:2]] == strange
    code, out, _ = command(capsys, "info", folder, "--json")
    assert (code, json.loads(out)["evaluations"][:2]) == (0, strange)


# ---------------------------------------------------------------------------------------------- pictures


def test_a_picture_for_each_topic(letters, generalized, tmp_path, capsys):
    """All runs on the same axes; those of one run lie in its folder."""
    code, out, _ = command(capsys, "plot", letters, generalized, "--out", tmp_path / "p", "--json")
    assert code == 0
    written = [Path(name) for name in json.loads(out)]
    assert [path.name for path in written] == ["loss.png", "schedule.png", "revealed.png", "w.png"]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in written)
    code, out, _ = command(capsys, "plot", generalized, "--format", "svg")
    assert code == 0
    assert sorted(p.name for p in (generalized / "plots").iterdir()) == [
        *("loss.svg", "revealed.svg", "schedule.svg", "w.svg")
    ]
    text = (generalized / "plots" / "loss.svg").read_text()
    assert "<svg" in text


def test_other_models_have_no_loss_to_draw(letters, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    causal = trained(letters.parent / "data", tmp_path / "ar", method="ar", steps=1)
    assert json.loads(command(capsys, "plot", causal, "--json")[1]) == [str(causal / "plots" / "loss.png")]
    export(find_model(str(causal)), tmp_path / "c")
    code, out, _ = command(capsys, "plot", "c")
    assert (code, out) == (0, "nothing to plot: no losses, and no schedule in use\n")
    export(find_model(letters), tmp_path / "m")
    written = json.loads(command(capsys, "plot", "m", "--json")[1])
    assert written == ["results/m/plots/schedule.png", "results/m/plots/revealed.png"]


@pytest.mark.parametrize(
    ("words", "said"),
    [((), "nothing to plot"), (("x", "y"), "several runs have no common folder"), (("x",), "is not a run or a model")],
)
def test_what_cannot_be_drawn_is_one_line(words, said, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, _, err = command(capsys, "plot", *words)
    assert code == 2
    assert said in err
    assert err.count("\n") == 1


def test_smoothing_is_the_mean_of_windows():
    steps, losses = list(range(1, 201)), list(np.random.default_rng(0).normal(size=200))
    centres, means, window = smoothed(steps, losses)
    assert window == 4
    assert centres[0] == pytest.approx(2.5)
    assert means[7] == pytest.approx(np.mean(losses[7:11]))
    assert smoothed([1, 2], [3.0, 4.0]) == ([1, 2], [3, 4], 1)


def test_tokens_revealed_per_step_of_a_schedule_per_token():
    """The mean over tokens; equal exponents give the scalar schedule; all tokens are revealed in the end."""
    w = torch.tensor([0.5, 1.0, 3.0], dtype=torch.float64)
    each = [revealed_per_step(Polynomial(float(x)), "cosine", 10, 100) for x in w]
    assert revealed_per_step(TokenPolynomial(w), "cosine", 10, 100) == pytest.approx(np.mean(each, axis=0))
    same = revealed_per_step(TokenPolynomial(torch.ones(4, dtype=torch.float64)), "uniform", 10, 100)
    assert same == pytest.approx(revealed_per_step(Linear(), "uniform", 10, 100))
    assert sum(same) == pytest.approx(100)


def test_symbols_can_be_read_on_an_axis():
    assert symbols(Characters("a \n$", eos=True)) == ["a", "␣", "\\n", r"\$", "end"]
    assert len(symbols(Bytes())) == 256
