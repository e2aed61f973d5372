"""Runs as a user has them: real processes, real kills, and curves that do not notice."""

import contextlib
import json
import os
import shutil
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import unmask
from tests import processes
from unmask.cli.main import main
from unmask.configs import from_json, to_json
from unmask.core import Streams
from unmask.data import Dataset, Plan, prepare
from unmask.networks import Conditioning, TransformerConfig
from unmask.run import Run, RunConfig, build_trainer, default_config, train, with_method
from unmask.run.evaluate import Evaluation, evaluate
from unmask.sampling import blank
from unmask.training import GenMD4Config, MD4Config, OptimizerConfig, RateConfig, TrainingConfig, loop

CPU = torch.device("cpu")


def config(data, **training):
    options = {"steps": 12, "batch_size": 8, "save_every": 4, "validate_every": 6, "validation_sequences": 8} | training
    network = TransformerConfig(8, layers=1, heads=2, width=16, dropout=0.1)
    training = TrainingConfig(**options, rate=RateConfig(warmup=2), preview=1, preview_steps=4)
    return RunConfig(data, network, training=training)


def small(setup, **training):
    """A configuration with a short training."""
    return replace(setup, training=replace(setup.training, preview_steps=4, validation_sequences=4, **training))


def curve(folder):
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [(line["step"], line["loss"], line["gradient"], line.get("validation")) for line in lines]


def test_training_learns_and_beats_the_unigram(text, tmp_path):
    """Pairs of a random letter of four and its capital: 1 bit per character, 3 bits for the unigram law."""
    setup = config(text, steps=250, batch_size=32, validate_every=250, save_every=250, validation_sequences=19)
    network = TransformerConfig(8, layers=2, heads=2, width=32)
    training = replace(setup.training, optimizer=OptimizerConfig(rate=5e-3), average=0.95)
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


class Arrived:
    """An event of a device, for a machine without one."""

    def synchronize(self):
        """It has happened."""


@pytest.mark.parametrize(("stop_after", "late"), [(3, False), (4, False), (9, False), (1, True), (3, True), (4, True)])
def test_stopping_and_going_on_is_the_same_curve(text, tmp_path, monkeypatch, stop_after, late):
    """On a GPU a step is reported when the next is under way: stopped in between, that one is written down too."""
    list(train(config(text), tmp_path / "whole", CPU))
    if late:
        monkeypatch.setattr(loop, "_to_host", lambda values: (values, Arrived()))
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
        "genmd4": RunConfig(text, network, GenMD4Config(), base.training),
        "race": RunConfig(text, base.network, GenMD4Config(masks="exact-k"), base.training),
        "ce": replace(base, method=MD4Config(weighting="ce")),
        "exponents": replace(base, method=MD4Config(exponents=((0, 8.0), (3, 0.5)), weighting="ce")),
        "bell": replace(base, method=MD4Config(k_law="bell", weighting="importance")),
        "paper": replace(base, method=MD4Config(masks="independent", shift=1e-4)),
        "muon": config(text, optimizer=OptimizerConfig("muon")),
    }.items():
        list(train(setup, tmp_path / name, CPU))
        reports = train(setup, tmp_path / f"{name} again", CPU)
        for _ in range(5):
            next(reports)
        reports.close()
        list(train(setup, tmp_path / f"{name} again", CPU))
        assert curve(tmp_path / name) == curve(tmp_path / f"{name} again")
    w = unmask.load(tmp_path / "genmd4").method.weights()
    assert not torch.equal(w, w[:1].expand(8))


def test_images_with_classes(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (60, 4, 4, 3), dtype=np.uint8)
    labels = np.arange(60, dtype=np.uint8) % 3
    np.savez(
        tmp_path / "a.npz", train_images=images, train_labels=labels, test_images=images[:9], test_labels=labels[:9]
    )
    prepare(Plan(str(tmp_path / "a.npz")), tmp_path / "data")
    setup = small(default_config(str(tmp_path / "data")), steps=3, batch_size=4)
    assert setup.network.conditioning.classes == 3
    last = list(train(setup, tmp_path / "run", CPU))[-1]
    assert last.validation.mean == pytest.approx(8, abs=0.5)
    assert (tmp_path / "run/samples/step-00000003.png").read_bytes().startswith(b"\x89PNG")
    model = unmask.load(tmp_path / "run")
    assert model.sample_tokens(2, steps=3, label=1).tokens.shape == (2, 4, 4, 3)
    with pytest.raises(ValueError, match=r"no such class: got 3, allowed: 0..2"):
        model.sample_tokens(2, steps=3, label=3)


def test_padded_rows(tmp_path):
    (tmp_path / "a.smi").write_text("\n".join(["CO", "CCCC", "CCO"] * 40))
    prepare(Plan(str(tmp_path / "a.smi")), tmp_path / "data")
    setup = small(default_config(str(tmp_path / "data")), steps=3, batch_size=4, preview=30)
    assert setup.network.positions == 4
    reports = list(train(setup, tmp_path / "run", CPU))
    assert reports[0].tokens < 16  # padding is not counted
    assert reports[0].loss == pytest.approx(np.log2(3), rel=0.6)
    assert len((tmp_path / "run/samples/step-00000003.txt").read_text().splitlines()) == 30 * 2 - 1
    model = unmask.load(tmp_path / "run")
    counts = model.facts.length_counts
    assert counts[:2] == (0, 0)
    assert sum(counts) == len(Dataset(setup.data).split("train"))
    x = blank((4,), 99, Streams(0, 60), torch.tensor(counts), fill=7)
    assert {row.index(7) if 7 in row else 4 for row in x.tolist()} == {2, 3, 4}  # lengths are those of the data


COMMAND = [sys.executable, "-m", "unmask", "train"]


def start(data, out, *flags):
    arguments = ["--data", data, "--out", str(out), "--steps", "60", "--batch-size", "8", "--save-every", "7", *flags]
    return processes.Popen([*COMMAND, *arguments], stdout=processes.PIPE, stderr=processes.PIPE, text=True)


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
            assert "run the same command again to resume" in said
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
    assert Run.open(tmp_path / "run").config.training.steps == 60
    dry = processes.run(
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


@pytest.mark.parametrize("line", ["{}", "null", "[]", '{"step": "x", "loss": 1}', '{"step": 3}', "\udcff"])
def test_foreign_lines_in_the_log_are_passed_over(text, tmp_path, line):
    setup = config(text, steps=5, save_every=2, validate_every=5)
    reports = train(setup, tmp_path / "run", CPU)
    for _ in range(3):
        next(reports)
    reports.close()
    log = tmp_path / "run" / "metrics.jsonl"
    log.write_bytes(line.encode(errors="surrogateescape") + b"\n" + log.read_bytes())
    assert [step["step"] for step in Run.open(tmp_path / "run").metrics()] == [1, 2, 3]
    list(train(setup, tmp_path / "run", CPU))
    assert [step for step, *_ in curve(tmp_path / "run")] == [1, 2, 3, 4, 5]


def test_other_data_is_another_run(tmp_path):
    """Prepared again with other letters in the same place: token 0 would mean something else from then on."""
    (tmp_path / "a.txt").write_text("abcdABCD" * 600)
    prepare(Plan(str(tmp_path / "a.txt"), length=32), tmp_path / "data")
    setup = config(str(tmp_path / "data"), steps=2)
    list(train(setup, tmp_path / "run", CPU))
    for letters in ("efghEFGH", "abcdDCBA"):  # another vocabulary; the same with another order
        shutil.rmtree(tmp_path / "data")
        (tmp_path / "a.txt").write_text(letters * 600)
        prepare(Plan(str(tmp_path / "a.txt"), length=32), tmp_path / "data")
        with pytest.raises(ValueError, match="run was started with other data"):
            list(train(setup, tmp_path / "run", CPU))


def test_a_report_that_fails_leaves_a_saved_run_that_goes_on(text, tmp_path):
    """The error is kept, as a notebook does: the folder is free and saved all the same."""

    def fail_at(report):
        if report.step == 3:
            raise RuntimeError("no more")

    setup = config(text, steps=5, save_every=5)
    with pytest.raises(RuntimeError, match="no more") as kept:
        unmask.train(setup, tmp_path / "run", report=fail_at, device=CPU)
    assert Run.open(tmp_path / "run").identity == "step-00000003"
    unmask.train(setup, tmp_path / "run", device=CPU)
    assert len(curve(tmp_path / "run")) == 5
    del kept


def test_a_run_goes_on_by_its_folder_alone(text, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    reports = train(config(text, steps=4), tmp_path / "run", CPU)
    next(reports)
    reports.close()
    assert main(["info", "run"]) == 0
    assert "unmask train --out run" in capsys.readouterr().out
    assert main(["train", "--out", "run"]) == 0
    assert len(curve(tmp_path / "run")) == 4
    capsys.readouterr()
    assert main(["train", "--out", "nothing"]) == 2
    for change, said in (("--steps", "got training.steps: 4 → 9"), ("--stepz", "unknown field: got --stepz")):
        assert main(["train", "--out", "run", change, "9"]) == 2  # a change is no going on
        assert said in capsys.readouterr().err


def test_configurations_survive_json(text):
    for setup in (config(text), default_config(text, "3m", "genmd4")):
        assert from_json(RunConfig, json.loads(json.dumps(to_json(setup)))) == setup


def test_mistakes(text, tmp_path):
    setup = config(text)
    Run.start(tmp_path / "run", setup)
    with pytest.raises(
        ValueError,
        match=r"another configuration: got training.steps: 12 → 13.*start another run from this one with --start",
    ):
        Run.start(tmp_path / "run", config(text, steps=13))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "x").write_text("")
    with pytest.raises(ValueError, match="is not empty: got 1 entries"):
        Run.start(tmp_path / "other", setup)
    with pytest.raises(ValueError, match="is not a run"):
        Run.open(tmp_path)
    Run.start(tmp_path / "damaged", setup)
    for content in ("{", "[]", "null"):
        (tmp_path / "damaged" / "config.json").write_text(content)
        with pytest.raises(ValueError, match=r"config.json is damaged"):
            Run.start(tmp_path / "damaged", setup)
    with pytest.raises(ValueError, match="x is a file: got a file, allowed: a new folder"):
        next(train(setup, tmp_path / "other" / "x", CPU))
    with pytest.raises(ValueError, match="the length is not a whole number of blocks: got 24 tokens"):
        next(train(with_method(replace(setup, length=24), "block"), tmp_path / "blocks", CPU))
    assert not (tmp_path / "blocks").exists()
    with pytest.raises(ValueError, match="has no checkpoint yet"):
        unmask.load(tmp_path / "run")
    with pytest.raises(ValueError, match="the vocabulary does not match the network: got 8 tokens"):
        build_trainer(RunConfig(text, TransformerConfig(9, heads=2, width=16)), tmp_path, CPU)
    with pytest.raises(ValueError, match="the micro-batch does not divide the batch: got 3 of 8"):
        config(text, micro_batch=3)
    with pytest.raises(ValueError, match="steps is not positive"):
        config(text, steps=0)
    with pytest.raises(ValueError, match="unknown precision: got fp8"):
        config(text, precision="fp8")
    with pytest.raises(ValueError, match=r"got -1"):
        MD4Config(schedule="polynomial", exponent=-1.0)
    with pytest.raises(ValueError, match=r"shift ε is out of range: got 0\.7"):
        MD4Config(shift=0.7)
    with pytest.raises(ValueError, match="unknown log: got paper, allowed: tensorboard, wandb"):
        next(train(setup, tmp_path / "new", CPU, log=("paper",)))
    assert not (tmp_path / "new").exists()
    document = to_json(setup)
    document["training"]["stesp"] = 3
    with pytest.raises(ValueError, match="did you mean steps"):
        from_json(RunConfig, document)
    document["network"]["kind"] = "Perceptron"
    with pytest.raises(ValueError, match=r"unknown kind of configuration: got Perceptron, allowed: TransformerConfig"):
        from_json(RunConfig, document)


def test_a_folder_is_trained_in_by_one_process(text, tmp_path):
    """A second one is refused in one line, and the first does not notice; killed, it leaves the folder free."""
    command = [*COMMAND, "--data", text, "--out", str(tmp_path / "run"), "--layers", "1", "--width", "16"]
    command += ["--heads", "2", "--steps", "100000", "--save-every", "5", "--validate-every", "100000"]
    first = processes.Popen(command, stdout=processes.PIPE, stderr=processes.PIPE, text=True)
    while not list((tmp_path / "run").glob("checkpoints/step-*")):
        assert first.poll() is None
        time.sleep(0.02)
    second = processes.run(command, capture_output=True, text=True, check=False)
    assert second.returncode == 2
    assert second.stderr.startswith(f"{tmp_path / 'run'} is in use: got another process writing to it")
    assert second.stderr.count("\n") == 1
    assert first.poll() is None
    os.kill(first.pid, signal.SIGKILL)
    first.communicate()
    steps = [json.loads(line)["step"] for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert steps == list(range(1, len(steps) + 1))
    generator = train(Run.open(tmp_path / "run").config, tmp_path / "run", CPU)
    assert next(generator).step > 5
    generator.close()


@pytest.mark.parametrize("name", ["vocabulary.json", "data.json"])
def test_an_incomplete_run_says_what_to_do(text, tmp_path, name):
    list(train(config(text), tmp_path / "run", CPU))
    (tmp_path / "run" / name).unlink()
    with pytest.raises(ValueError, match=rf"run is incomplete: got no {name}, .*unmask train, which resumes"):
        unmask.load(tmp_path / "run")
    list(train(config(text), tmp_path / "run", CPU))
    unmask.load(tmp_path / "run")


def test_a_loss_that_is_not_finite_stops_with_the_rows(text, tmp_path):
    trainer = build_trainer(config(text), tmp_path, CPU)
    with torch.no_grad():
        trainer.method.network.output.weight.fill_(torch.inf)
    with pytest.raises(ValueError, match=r"losses are NaN|at step 0 is not finite: got .* on rows"):
        next(iter(trainer.steps()))


def test_a_gradient_that_is_not_finite_is_never_saved(text, tmp_path):
    """The loss of its step still is: only the weights after it are not."""
    trainer = build_trainer(config(text, save_every=2), tmp_path, CPU)
    weight = trainer.method.network.output.weight
    weight.register_hook(lambda g: torch.full_like(g, torch.inf) if trainer.done == 3 else g)
    with pytest.raises(ValueError, match=r"the gradient at step 3 is not finite: got inf on rows"):
        list(trainer.steps())
    resumed = build_trainer(config(text, save_every=2), tmp_path, CPU)
    assert resumed.resume() == 2
    assert next(iter(resumed.steps())).step == 3


def test_held_out_bits_are_per_token_also_where_rows_differ_in_length(tmp_path):
    """Short rows are certain and long ones are not: a mean over rows would be far too low."""
    letters = np.random.default_rng(0).choice(list("bcdefghi"), (150, 40))
    (tmp_path / "lines.txt").write_text("\n".join(f"a\n{''.join(row)}" for row in letters))
    prepare(Plan(str(tmp_path / "lines.txt"), kind="lines", valid=0.2, test=0.1), tmp_path / "data")
    setup = small(default_config(str(tmp_path / "data")), steps=30, batch_size=16, seed=2**64 - 1, preview=0)
    network = replace(setup.network, layers=1, heads=2, width=16)
    setup = replace(setup, network=network, training=replace(setup.training, validation_sequences=1000, average=0.5))
    last = list(train(setup, tmp_path / "run", CPU))[-1]
    truth = evaluate(Run.open(tmp_path / "run"), Evaluation("valid")).bits()["token"]
    assert last.validation.mean == pytest.approx(truth.mean, abs=5 * (truth.error + truth.monte_carlo))
    assert last.validation.error == pytest.approx(truth.error, rel=0.5)
    assert truth.mean > 2.5


def test_validation_is_of_rows_from_all_over_the_split(tmp_path):
    """Trained on a's alone, held-out text of a's and then b's: eight windows of 64 are half of each, and so cost what
    all do; as neighbours are alike, their error is that of blocks, which is far from nothing.
    """
    (tmp_path / "a.txt").write_text("a" * 4096 + "b" * 512)
    prepare(Plan(str(tmp_path / "a.txt"), length=16, valid=1024 / 4608, test=0), tmp_path / "data")
    held_out = Dataset(tmp_path / "data").split("valid")
    assert (len(held_out), held_out.stream(0, 512).max(), held_out.stream(512, 512).min()) == (64, 0, 1)
    fast = {"optimizer": OptimizerConfig(rate=1e-2), "average": 0.0}
    setup = config(str(tmp_path / "data"), steps=30, validate_every=30, **fast)
    setup = replace(setup, network=replace(setup.network, vocab_size=2))
    trainer = build_trainer(setup, tmp_path / "run", CPU)
    list(trainer.steps())
    few = trainer.validate()
    trainer.config = replace(trainer.config, validation_sequences=64)
    whole = trainer.validate()
    assert whole.mean > 2  # half of it is a surprise
    assert few.mean == pytest.approx(whole.mean, rel=0.1)
    assert whole.error > 0.2 * whole.mean  # over windows it is an eighth


@pytest.mark.parametrize(
    ("shares", "split", "said"),
    [
        ((0.1, 0.1), "valid", None),
        (
            (0.01, 0.1),
            "test",
            "training is monitored on test, since valid is shorter than one sequence (8 tokens); prepare",
        ),
        ((0.0, 0.1), "test", "training is monitored on test, since the data has no valid; prepare the data with"),
        (
            (0.01, 0.0),
            None,
            "training is not monitored, since valid is shorter than one sequence (8 tokens) and the data",
        ),
    ],
    ids=["valid", "short", "none", "neither"],
)
def test_what_training_is_watched_on_is_said(shares, split, said, tmp_path, capsys):
    """In a line of the command, in the log, and of the run; of data that was prepared so, at once."""
    (tmp_path / "a.txt").write_text("abcd" * 200)
    data, out = tmp_path / "data", tmp_path / "run"
    prepare(Plan(str(tmp_path / "a.txt"), length=16, valid=shares[0], test=shares[1]), data)
    small = {"steps": 2, "batch-size": 2, "layers": 1, "heads": 2, "width": 16, "preview": 0, "validation-sequences": 2}
    fields = [word for name, value in small.items() for word in (f"--{name}", str(value))]
    commands = (
        ["data", "info", str(data)],
        ["train", "--data", str(data), "--out", str(out), *fields],
        ["info", str(out)],
    )
    printed = []
    for words in commands:
        assert main(words) == 0
        printed.append(capsys.readouterr().out)
    of_data, of_training = ([line for line in text.splitlines() if "training is" in line] for text in printed[:2])
    assert len(of_training) == (said is not None)
    assert all(line.startswith(said) for line in of_training)
    assert of_data == (of_training if said and "short" in said else [])
    bounds = [line["validation"] for line in Run.open(out).metrics() if "validation" in line]
    assert [bound["split"] for bound in bounds] == ([] if split is None else [split])
    for text in printed[1:]:
        assert ("bits per token of test" in text) == (split == "test")


def test_an_exact_likelihood_is_validated_once(text, tmp_path):
    trainer = build_trainer(with_method(config(text), "ar"), tmp_path, CPU)
    rows, features = [], trainer.method.network.features
    trainer.method.network.features = lambda x, *rest: rows.append(len(x)) or features(x, *rest)
    trainer.validate()
    assert sum(rows) == 2 * trainer.config.validation_sequences  # twice, since an error takes two


def test_a_full_disk_loses_nothing(text, small_disk, tmp_path):
    """The disk fills up while a run saves: one line, exit code 2; with room again the curve is as if nothing was."""
    arguments = ["--steps", "40", "--batch-size", "8", "--save-every", "5", "--layers", "1", "--width", "16"]
    arguments += ["--heads", "2", "--keep", "1", "--validate-every", "40", "--preview", "0"]
    command = [*COMMAND, "--data", text, *arguments]
    whole = processes.run([*command, "--out", str(tmp_path / "whole")], capture_output=True, text=True, check=False)
    assert whole.returncode == 0, whole.stderr
    out = small_disk / "run"
    process = processes.Popen([*command, "--out", str(out)], stderr=processes.PIPE, stdout=processes.PIPE, text=True)
    while not list(out.glob("checkpoints/step-*")) and process.poll() is None:
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGSTOP)
    with (small_disk / "filler").open("wb", buffering=0) as filler, contextlib.suppress(OSError):
        while filler.write(b"x" * 4096):
            pass
    os.kill(process.pid, signal.SIGCONT)
    _, said = process.communicate(timeout=60)
    if process.returncode == 0:
        pytest.skip("it was finished before the disk was full")
    assert process.returncode == 2, said
    assert said.count("\n") == 1
    assert "no space" in said.lower() or "StorageFull" in said or "os error 28" in said
    (small_disk / "filler").unlink()
    again = processes.run([*command, "--out", str(out)], capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stderr
    assert curve(out) == curve(tmp_path / "whole")


def test_train_and_load_from_python(text, tmp_path):
    seen = []
    run = unmask.train(config(text), tmp_path / "run", report=seen.append, device=CPU)
    assert [r.step for r in seen] == list(range(1, 13)) == [line["step"] for line in run.metrics()]
    model = unmask.load(tmp_path / "run", best=True)
    first, again = model.sample(3, steps=8, seed=1), model.sample(3, steps=8, seed=1)
    assert first == again
    assert model.sample(5, steps=8, seed=1)[:3] == first  # a sample does not depend on its batch
    assert all(len(s) == 32 and set(s) <= set("abcdABCD") for s in first)
    plain = unmask.load(tmp_path / "run", average=False)
    assert not torch.equal(plain.network.embedding.weight, model.network.embedding.weight)


def test_the_data_is_not_needed_to_use_a_model(tmp_path):
    (tmp_path / "a.txt").write_text("abcd" * 500)
    prepare(Plan(str(tmp_path / "a.txt"), length=16), tmp_path / "data")
    setup = small(default_config(str(tmp_path / "data")), steps=1, batch_size=2)
    list(train(setup, tmp_path / "run", CPU))
    for path in sorted((tmp_path / "data").rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    assert set(unmask.load(tmp_path / "run").sample(1, steps=2)[0]) <= set("abcd")


def test_logs(text, tmp_path):
    """TensorBoard's event file holds the curve; W&B, offline, writes its own; a stop leaves no trace in the curve."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    reports = train(config(text), tmp_path / "run", CPU, log=("tensorboard",))
    for _ in range(7):
        next(reports)
    reports.close()
    list(train(config(text), tmp_path / "run", CPU, log=("tensorboard",)))
    events = EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    events.Reload()
    logged = [(e.step, e.value) for e in events.Scalars("loss, bits per token")]
    assert logged == [(step, np.float32(loss)) for step, loss, *_ in curve(tmp_path / "run")]
    assert [e.step for e in events.Scalars("held-out bits")] == [6, 12]
    offline = os.environ | {"WANDB_MODE": "offline", "WANDB_SILENT": "true"}
    arguments = ["--data", text, "--out", str(tmp_path / "w"), "--steps", "3", "--log", "wandb", "--json"]
    done = processes.run([*COMMAND, *arguments], capture_output=True, text=True, check=False, env=offline)
    assert done.returncode == 0, done.stderr
    assert list((tmp_path / "w" / "wandb").glob("offline-run-*/*.wandb"))
    unknown = {k: v for k, v in os.environ.items() if k != "WANDB_API_KEY"} | {
        "HOME": str(tmp_path),
        "WANDB_SILENT": "true",
    }
    arguments[3] = str(tmp_path / "unknown")
    done = processes.run([*COMMAND, *arguments], capture_output=True, text=True, check=False, env=unknown)
    assert done.returncode == 2
    assert "cannot log to Weights & Biases: got " in done.stderr
    assert "Traceback" not in done.stderr


def test_a_run_goes_on_when_it_or_its_data_was_moved(tmp_path, monkeypatch):
    """By its folder from elsewhere, or with the new place of the data, which it remembers."""
    project = tmp_path / "project"
    project.mkdir()
    (project / "a.txt").write_text("abcd" * 200)
    prepare(Plan(str(project / "a.txt"), length=16, valid=0.1, test=0), project / "data")
    monkeypatch.chdir(project)
    setup = config("data", steps=6)
    setup = replace(setup, network=replace(setup.network, vocab_size=4))
    list(train(setup, Path("whole"), CPU))
    stopped(setup, "run", after=2)
    project.rename(tmp_path / "moved")
    monkeypatch.chdir(tmp_path)
    stopped(replace(setup, data=Run.open("moved/run").own_data), "moved/run", after=4)
    Path("moved/data").rename("elsewhere")
    other = replace(setup, data="elsewhere", training=replace(setup.training, clip=2.0))
    with pytest.raises(ValueError, match=r"another configuration: got training.clip: 1.0 → 2.0, allowed"):
        list(train(other, Path("moved/run"), CPU))
    assert Run.open("moved/run").config.data == str(tmp_path / "moved" / "data")
    list(train(replace(setup, data="elsewhere"), Path("moved/run"), CPU))
    assert Run.open("moved/run").config.data == "elsewhere"
    assert main(["train", "--out", "moved/run"]) == 0
    assert curve(Path("moved/run")) == curve(Path("moved/whole"))


def stopped(setup, folder, after):
    """A run until a step."""
    reports = train(setup, Path(folder), CPU)
    for report in reports:
        if report.step == after:
            reports.close()


def test_a_run_finds_its_data_from_anywhere(tmp_path, monkeypatch):
    """From where it was trained, from elsewhere, and when the whole is moved; never other data of that name."""
    project, other = tmp_path / "project", tmp_path / "other"
    for place, content in ((project, "abcd" * 200), (other, "abdc" * 200)):
        place.mkdir()
        (place / "a.txt").write_text(content)
        prepare(Plan(str(place / "a.txt"), length=16, valid=0.1, test=0), place / "data")
    monkeypatch.chdir(project)
    setup = config("data", steps=1)
    setup = replace(setup, network=replace(setup.network, vocab_size=4))
    list(train(setup, Path("runs/first"), CPU))
    assert Run.open("runs/first").own_data == "data"
    for place in (tmp_path, project / "runs", other):
        monkeypatch.chdir(place)
        assert Run.open(project / "runs" / "first").own_data == str(project / "data")
    project.rename(tmp_path / "moved")
    assert Run.open(Path("..") / "moved" / "runs" / "first").own_data == str(tmp_path / "moved" / "data")
    shutil.rmtree(tmp_path / "moved" / "data")
    assert Run.open(tmp_path / "moved" / "runs" / "first").own_data == "data"  # the path, for want of better
