"""The command as a user runs it: its output and its exit code, of a real process or, which is quicker, of `main`."""

import json
import subprocess
import sys

import pytest

from tests import processes
from tests.commands import run
from unmask.cli.main import main


@pytest.fixture
def here(tmp_path, monkeypatch, capsys):
    """The same within this process, called in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        code = main(list(arguments))
        said = capsys.readouterr()
        return subprocess.CompletedProcess(arguments, code, said.out, said.err)

    return call


def test_help_is_quick_and_names_every_command():
    done = run("--help")
    assert done.returncode == 0
    assert "demo" in done.stdout
    assert run().stdout == done.stdout
    # a real start, not one that has imported torch already
    without_torch = """
import sys
from unmask.cli.main import main
main(["--help"])
print("torch" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", without_torch], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("False\n")


def test_version():
    import unmask

    assert run("--version").stdout == f"unmask {unmask.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["demo", "--sed", "3"],
            "unknown arguments: got --sed, 3, allowed: what unmask COMMAND --help lists; did you mean --seed?",
        ),
        (["demo", "--seed", "x"], "--seed is not an integer: got 'x', allowed: an integer"),
        (["sample", "demo", "--length", "1e3"], "--length is not an integer: got '1e3'"),
        (["sample", "demo", "--temperature", "hot"], "--temperature is not a number: got 'hot'"),
        (
            ["sample", "demo", "--grid", "round"],
            "--grid has an unknown value: got 'round', allowed: cosine, uniform; choose",
        ),
        (["sample", "demo", "more"], "unknown arguments: got more, allowed:"),
        (["sample", "demo", "-n"], "-n/--count has no value"),
        (["sample"], "MODEL is missing: got none"),
        (["frontier", "demo", "--temperatures", "a"], "--temperatures has an invalid value: got 'a'"),
        (["sample", "demo", "--sed", "3", "--len", "4"], "unknown arguments: got --sed, 3, --len, 4, allowed:"),
        (["demo", "--seed", "-1"], "seed is out of range: got -1, allowed: 0 <= seed < 2**64"),
        (["dmeo"], "unknown command: got dmeo, allowed: demo, info, "),
        (["demo", "--out", "/dev/null/pictures"], "got /dev/null, which is not a folder"),
        (["train", "--out", "x"], "nothing to train on: got no preset, no --data"),
        (["train", "characters"], "no folder for the run"),
        (["train", "charcters", "--out", "x"], "did you mean characters?"),
        (["train", "text8", "--dry-run", "--lyers", "3"], "unknown field: got --lyers"),
        (["train", "mnist", "--dry-run", "--layers", "3"], "UNets, which this data gets, have no --layers"),
        (["train", "text8", "--dry-run", "--lyers", "3"], "did you mean --layers"),
        (["train", "text8", "--dry-run", "--layers", "many"], "--layers is not an integer: got 'many'"),
        (["train", "text8", "--dry-run", "--mlp", "swish"], "gated"),
        (["train", "text8", "--dry-run", "--size", "1m"], "a preset sets the size"),
        (["train", "text8", "--dry-run", "--heads", "7"], "the heads do not fit the width"),
        (["train", "text8", "--dry-run", "--heads", "0"], "heads is out of range: got 0"),
        (["train", "text8", "--dry-run", "--width", "-32"], "width is out of range: got -32"),
        (["train", "text8", "--dry-run", "--layers", "0"], "layers is out of range: got 0"),
        (
            ["train", "text8", "--dry-run", "--positions", "-1"],
            "positions is out of range: got -1, allowed: an integer >= 0",
        ),
        (["train", "text8", "--dry-run", "--classes", "-1"], "classes is out of range: got -1"),
        (["train", "cifar10", "--dry-run", "--blocks", "0"], "blocks is out of range: got 0"),
        (["train", "text8", "--dry-run", "--block", "4"], "md4 does not support --block: got block 4"),
        (["train", "text8", "--dry-run", "--causal"], "md4 does not support --causal: got causal True"),
        (["train", "text8", "--dry-run", "--clip", "-1"], "clip is not positive: got -1"),
        (["train", "text8", "--dry-run", "--label-dropout", "2"], "label_dropout is out of range: got 2"),
        (["train", "text8", "--dry-run", "--betas", "1", "1"], "a beta is out of range"),
        (["train", "text8", "--dry-run", "--shift", "2"], "shift ε is out of range: got 2"),
        (["train", "text8", "--dry-run", "--shift", "0", "--exponents", "0", "inf"], "an exponent is out of range"),
        (["train", "text8", "--dry-run", "--no-tied"], "nothing to switch: got --no-tied"),
        (["train", "text8-genmd4", "--dry-run", "--exponents", "0", "8"], "genmd4 has no --exponents"),
        (["train", "text8-ar", "--dry-run", "--k-law", "bell"], "leave it out, or use --method md4"),
        (
            ["data", "prepare", "x", "--out", "y", "--valid", "nan"],
            "the held-out shares are out of range: got valid nan",
        ),
        (["data", "prepare", "shakespeare", "--out", "y", "--workers", "0"], "workers is not positive: got 0"),
        (["train", "imagenet64", "--out", "x"], "no such source: got imagenet64"),
        (["train", "--data", "nowhere", "--out", "x"], "nowhere holds no prepared data"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(arguments, said, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    stderr = capsys.readouterr().err
    assert said in stderr
    assert stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())  # nothing was begun


def test_bad_input_in_a_real_process():
    done = run("train", "text8", "--dry-run", "--lyers", "3")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr


def test_missing_extra_names_the_install_command(tmp_path):
    blocked = """
import sys
sys.modules["matplotlib"] = None
from unmask.cli.main import main
sys.exit(main(["samplers", "--plot", sys.argv[1]]))
"""
    done = processes.run(
        [sys.executable, "-c", blocked, str(tmp_path / "p.png")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert 'pip install "unmask[plot]"' in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "p.png").exists()


def test_train_help_lists_presets_and_fields():
    done = run("train", "--help")
    assert done.returncode == 0
    for word in ("PRESET", "imagenet64-classes", "--steps", "--k-law", "--weight-decay", "--condition-width"):
        assert word in done.stdout


def test_train_help_lists_the_fields_of_a_preset_and_of_a_method(here):
    for words, has, lacks in (
        (("imagenet64",), ("--blocks", "--patch"), ("--mlp",)),
        (("text8", "--method", "genmd4"), ("--initial", "--no-time"), ("--weighting",)),
        (("--method", "d3pm", "--steps", "9"), ("--auxiliary", "--mlp"), ("--weighting",)),
    ):
        done = here("train", *words, "--help")
        assert done.returncode == 0, done.stderr
        for word in has:
            assert f" {word} " in done.stdout, (words, word)
        for word in lacks:
            assert f" {word} " not in done.stdout, (words, word)
    assert "did you mean text8" in here("train", "tex8", "--help").stderr


def test_every_preset_has_a_dry_run_without_its_data(tmp_path, here):
    """The configuration, its size and its cost, before anything is fetched."""
    for name, said in (("fineweb-edu-large", "878.46 M parameters"), ("imagenet64", "197.65 M parameters")):
        done = here("train", name, "--dry-run", "--batch-size", "8")
        assert done.returncode == 0, done.stderr
        summary, _, document = done.stdout.partition("{")
        assert said in " ".join(summary.split())
        assert json.loads("{" + document)["training"]["batch_size"] == 8
    done = here("train", "fineweb-edu-large", "--dry-run", "--json")
    found = json.loads(done.stdout)
    assert found["config"]["data"]
    assert round(found["cost"]["parameters"] / 1e6, 2) == 878.46
    assert found["cost"]["flops_per_token"] > 6 * 0.5 * found["cost"]["parameters"]
    assert found["cost"]["memory_bytes"] > 16 * found["cost"]["parameters"]
    assert not list(tmp_path.iterdir())


def test_fields_are_set_by_name(here):
    """Numbers, pairs, switches and choices, wherever in the configuration they are."""
    words = "--optimizer muon --k-law bell --k-bell 3 4 --recompute --no-time --rate=0.01 --final_rate 0.1 --layers 2"
    done = here("train", "text8", "--dry-run", *words.split())
    assert done.returncode == 2  # the paper's preset masks independently, which has no law of k
    assert "k_law applies to exact-k masks only" in done.stderr
    done = here("train", "text8", "--dry-run", "--masks", "exact-k", *words.split())
    assert done.returncode == 0, done.stderr
    config = json.loads(done.stdout[done.stdout.index("{") :])
    assert config["training"]["optimizer"]["optimizer"] == "muon"
    assert config["training"]["optimizer"]["rate"] == 0.01
    assert config["training"]["rate"]["final_rate"] == 0.1
    assert config["method"]["k_bell"] == [3.0, 4.0]
    assert config["network"]["recompute"] is True
    assert config["network"]["conditioning"]["time"] is False


def test_a_preset_prepares_its_data_and_trains(here):
    words = "--steps 4 --batch-size 4 --layers 1 --heads 2 --width 16 --preview-steps 4 --validation-sequences 4"
    done = here("train", "characters", "--out", "runs/a", *words.split(), "--method", "genmd4")
    assert done.returncode == 0, done.stderr
    assert "preparing shakespeare in data/shakespeare" in done.stdout
    assert "held out" in done.stdout
    again = here("train", "characters", "--out", "runs/a", *words.split(), "--method", "genmd4", "--json")
    assert json.loads(again.stdout)["validation"]["error"] > 0  # nothing left to do, and the result still there
    other = here("train", "characters", "--out", "runs/a", *words.split())
    assert other.returncode == 2
    assert "another configuration: got network.conditioning.time: True → False; method.kind" in other.stderr


def test_recomputed_activations_change_nothing(tmp_path, here):
    """The same curve, to the last bit."""
    words = "--steps 3 --batch-size 4 --layers 2 --heads 2 --width 16 --preview 0 --dropout 0.1"
    curves = []
    for name, flag in (("kept", []), ("recomputed", ["--recompute"])):
        done = here("train", "characters", "--out", name, *words.split(), *flag)
        assert done.returncode == 0, done.stderr
        lines = (tmp_path / name / "metrics.jsonl").read_text().splitlines()
        curves.append([json.loads(line)["loss"] for line in lines])
    assert curves[0] == curves[1]


def test_bench_measures_and_compares(tmp_path, here):
    words = ["bench", "train", "characters", "--windows", "2", "--window", "2", "--layers", "1", "--batch-size", "4"]
    first = here(*words, "--out", "a.json", "--json")
    assert first.returncode == 0, first.stderr
    found = json.loads(first.stdout)
    assert found["tokens_per_s"] > 0
    assert found["spread"][0] <= found["tokens_per_s"] <= found["spread"][1]
    assert sum(found["breakdown"].values()) == pytest.approx(1, abs=0.01)
    assert json.loads((tmp_path / "a.json").read_text()) == found
    shown = here(*words, "--compare", "a.json")
    assert "relative to the file" in shown.stdout
    assert "TFLOP/s" in shown.stdout
    (tmp_path / "other.json").write_text("{}")
    wrong = here(*words, "--compare", "other.json")
    assert wrong.returncode == 2
    assert "other.json is not a result" in wrong.stderr


def test_commands_keep_memory_for_the_next_tensors():
    """Counted in pages that the system has to hand out for twenty tensors of 64 MiB, one after the other."""
    code = """
import resource, torch
from unmask.cli import memory

def pages():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        torch.ones(1 << 24)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

usual = pages()
memory.keep()
pages()  # the heap grows until it has a place for all of them
print(usual, pages())
"""
    usual, kept = map(int, processes.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.split())
    assert usual > 20 * 32  # as many pages of 2 MiB; small ones are more
    assert kept < usual / 20
