"""Runs as a user has them: real processes, real kills, and curves that do not notice."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch

from unmask.configs import from_json, to_json
from unmask.core import Linear
from unmask.data import Plan, prepare
from unmask.networks import Conditioning, TransformerConfig
from unmask.run import MethodConfig, RunConfig, build_trainer, claim, default_config, open_run, train
from unmask.training import OptimizerConfig, RateConfig
from unmask.training.loop import TrainingConfig

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """A text in which every second character is determined by the one before."""
    folder = tmp_path_factory.mktemp("text")
    letters = np.random.default_rng(0).choice(list("abcd"), size=6000)
    (folder / "a.txt").write_text("".join(c + c.upper() for c in letters))
    prepare(Plan(str(folder / "a.txt"), length=32), folder / "data")
    return str(folder / "data")


def config(data, **training):
    options = {"steps": 12, "batch_size": 8, "save_every": 4, "validate_every": 6, "validation_sequences": 8} | training
    network = TransformerConfig(8, layers=1, heads=2, width=16, dropout=0.1)
    return RunConfig(data, network, training=TrainingConfig(**options, rate=RateConfig(warmup=2)))


def curve(folder):
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [(line["step"], line["loss"], line["gradient"], line.get("validation")) for line in lines]


def test_training_learns_and_beats_the_unigram(text, tmp_path):
    """Pairs of a random letter of four and its capital: 1 bit per character, 3 bits for the unigram law."""
    setup = config(text, steps=250, batch_size=32, validate_every=250, save_every=250, validation_sequences=19)
    network = TransformerConfig(8, layers=2, heads=2, width=32)
    training = TrainingConfig(**{**vars(setup.training), "optimizer": OptimizerConfig(rate=5e-3), "average": 0.95})
    last = list(train(RunConfig(text, network, training=training), tmp_path / "run", CPU))[-1]
    assert 1 < last.validation.mean < 2.3  # not below the entropy, far below the unigram law


def test_a_run_is_a_function_of_its_configuration(text, tmp_path):
    for name in ("a", "b"):
        list(train(config(text), tmp_path / name, CPU))
    assert curve(tmp_path / "a") == curve(tmp_path / "b")
    list(train(config(text, seed=1), tmp_path / "c", CPU))
    assert curve(tmp_path / "a") != curve(tmp_path / "c")


def test_micro_batches_change_nothing_but_rounding(text, tmp_path):
    list(train(config(text), tmp_path / "whole", CPU))
    list(train(config(text, micro_batch=2), tmp_path / "parts", CPU))
    whole, parts = curve(tmp_path / "whole"), curve(tmp_path / "parts")
    np.testing.assert_allclose([c[1] for c in parts], [c[1] for c in whole], rtol=1e-4)


@pytest.mark.parametrize("stop_after", [3, 4, 9])
def test_stopping_and_going_on_is_the_same_curve(text, tmp_path, stop_after):
    list(train(config(text), tmp_path / "whole", CPU))
    reports = train(config(text), tmp_path / "parts", CPU)
    for _ in range(stop_after):
        next(reports)
    reports.close()
    list(train(config(text), tmp_path / "parts", CPU))
    assert curve(tmp_path / "parts") == curve(tmp_path / "whole")


def test_genmd4_and_plain_weighting_run_and_resume(text, tmp_path):
    network = TransformerConfig(8, layers=1, heads=2, width=16, conditioning=Conditioning(time=True))
    base = config(text)
    for name, setup in {
        "genmd4": RunConfig(text, network, MethodConfig(learned=True), base.training),
        "ce": config(text, weighting="ce"),
        "muon": config(text, optimizer=OptimizerConfig("muon")),
    }.items():
        list(train(setup, tmp_path / name, CPU))
        reports = train(setup, tmp_path / f"{name} again", CPU)
        for _ in range(5):
            next(reports)
        reports.close()
        list(train(setup, tmp_path / f"{name} again", CPU))
        assert curve(tmp_path / name) == curve(tmp_path / f"{name} again")
    w = build_trainer(RunConfig(text, network, MethodConfig(learned=True), base.training), tmp_path / "genmd4", CPU)
    w.resume()
    assert not torch.equal(w.learned.rho, w.learned.rho[:1].expand(8))


def test_images_with_classes(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (60, 4, 4, 3), dtype=np.uint8)
    labels = np.arange(60, dtype=np.uint8) % 3
    np.savez(
        tmp_path / "a.npz", train_images=images, train_labels=labels, test_images=images[:9], test_labels=labels[:9]
    )
    prepare(Plan(str(tmp_path / "a.npz")), tmp_path / "data")
    training = TrainingConfig(steps=3, batch_size=4, validation_sequences=4)
    setup = default_config(str(tmp_path / "data"), training=training)
    assert setup.network.conditioning.classes == 3
    last = list(train(setup, tmp_path / "run", CPU))[-1]
    assert last.validation.mean == pytest.approx(8, abs=0.5)


def test_padded_rows(tmp_path):
    (tmp_path / "a.smi").write_text("\n".join(["CO", "CCCC", "CCO"] * 40))
    prepare(Plan(str(tmp_path / "a.smi")), tmp_path / "data")
    setup = default_config(
        str(tmp_path / "data"), training=TrainingConfig(steps=3, batch_size=4, validation_sequences=4)
    )
    assert setup.network.positions == 4
    reports = list(train(setup, tmp_path / "run", CPU))
    assert reports[0].tokens < 16  # padding is not counted
    assert reports[0].loss == pytest.approx(np.log2(3), rel=0.6)


COMMAND = [sys.executable, "-m", "unmask", "train"]


def start(data, out, *flags):
    arguments = ["--data", data, "--out", str(out), "--steps", "60", "--batch-size", "8", "--save-every", "7", *flags]
    return subprocess.Popen([*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process):
    process.communicate(timeout=120)
    return process.returncode


def test_killed_again_and_again_the_curve_is_bit_for_bit_the_same(text, tmp_path):
    """SIGKILL at arbitrary moments of training and saving, then SIGTERM, then Ctrl-C, then to the end."""
    assert finish(start(text, tmp_path / "whole")) == 0
    out = tmp_path / "killed"
    kills = 0
    for number, delay in ((signal.SIGKILL, 0.31), (signal.SIGKILL, 0.17), (signal.SIGTERM, 0.2), (signal.SIGINT, 0.1)):
        process = start(text, out)
        seen = _lines(out)
        while _lines(out) <= seen and process.poll() is None:  # until it has got a little further
            time.sleep(0.02)
        time.sleep(delay)
        if process.poll() is None:
            os.kill(process.pid, number)
            kills += 1
        _, said = process.communicate(timeout=60)
        if number != signal.SIGKILL and process.returncode:
            assert process.returncode == 130, said
            assert "the same command goes on" in said
    assert kills >= 3
    assert finish(start(text, out)) == 0
    assert curve(out) == curve(tmp_path / "whole")
    assert len(curve(out)) == 60


def _lines(out):
    checkpoints = sorted((out / "checkpoints").glob("step-*")) if (out / "checkpoints").exists() else []
    return checkpoints[-1].name if checkpoints else ""


def test_the_command_says_what_it_does(text, tmp_path):
    process = start(text, tmp_path / "run", "--validate-every", "30", "--json")
    printed, said = process.communicate(timeout=120)
    assert process.returncode == 0, said
    result = json.loads(printed)
    assert result["validation"]["error"] > 0
    assert open_run(tmp_path / "run").training.steps == 60
    dry = subprocess.run(
        [*COMMAND, "--data", text, "--out", str(tmp_path / "dry"), "--dry-run"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "M parameters" in dry.stdout
    assert not (tmp_path / "dry").exists()


def test_a_damaged_checkpoint_is_passed_over(text, tmp_path, capsys):
    list(train(config(text), tmp_path / "whole", CPU))
    reports = train(config(text), tmp_path / "run", CPU)
    for _ in range(9):
        next(reports)
    reports.close()
    newest = sorted((tmp_path / "run" / "checkpoints").glob("step-*"))[-1]
    (newest / "weights.safetensors").write_bytes(b"nonsense")
    list(train(config(text), tmp_path / "run", CPU))
    assert "is damaged" in capsys.readouterr().err
    assert curve(tmp_path / "run") == curve(tmp_path / "whole")


def test_configurations_survive_json(text):
    for setup in (config(text), default_config(text, MethodConfig("cosine"))):
        assert from_json(RunConfig, json.loads(json.dumps(to_json(setup)))) == setup


def test_schedules_build():
    assert isinstance(MethodConfig().build(5), Linear)
    assert MethodConfig("polynomial", exponent=2.0, shift=1e-4).build(5).epsilon == 1e-4


def test_mistakes(text, tmp_path):
    setup = config(text)
    claim(tmp_path / "run", setup)
    with pytest.raises(ValueError, match=r"another configuration: got training.steps: 12 → 13"):
        claim(tmp_path / "run", config(text, steps=13))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "x").write_text("")
    with pytest.raises(ValueError, match="is not empty"):
        claim(tmp_path / "other", setup)
    with pytest.raises(ValueError, match="is not a run"):
        open_run(tmp_path)
    with pytest.raises(ValueError, match="the vocabulary does not match the network: got 8 tokens"):
        build_trainer(RunConfig(text, TransformerConfig(9, heads=2, width=16)), tmp_path, CPU)
    with pytest.raises(ValueError, match="GenMD4 needs a network that sees the time"):
        build_trainer(RunConfig(text, setup.network, MethodConfig(learned=True)), tmp_path, CPU)
    seeing = TransformerConfig(8, heads=2, width=16, conditioning=Conditioning(time=True))
    with pytest.raises(ValueError, match="GenMD4 is trained on its bound only: got weighting ce"):
        build_trainer(
            RunConfig(text, seeing, MethodConfig(learned=True), config(text, weighting="ce").training), tmp_path, CPU
        )
    with pytest.raises(ValueError, match="the micro-batch does not divide the batch: got 3 of 8"):
        config(text, micro_batch=3)
    with pytest.raises(ValueError, match="unknown weighting: got fair, allowed is elbo, ce"):
        config(text, weighting="fair")
    with pytest.raises(ValueError, match="steps is not positive"):
        config(text, steps=0)
    with pytest.raises(ValueError, match="unknown schedule: got sine"):
        MethodConfig("sine")
    document = to_json(setup)
    document["training"]["stesp"] = 3
    with pytest.raises(ValueError, match="did you mean steps"):
        from_json(RunConfig, document)
    document["network"]["kind"] = "Perceptron"
    with pytest.raises(
        ValueError, match=r"unknown kind of configuration: got Perceptron, allowed is TransformerConfig"
    ):
        from_json(RunConfig, document)


def test_a_loss_that_is_not_finite_stops_with_the_rows(text, tmp_path):
    trainer = build_trainer(config(text), tmp_path, CPU)
    with torch.no_grad():
        trainer.network.output.weight.fill_(torch.inf)
    with pytest.raises(ValueError, match=r"NaN losses|at step 0 is not finite: got .* on rows"):
        next(trainer.steps())
