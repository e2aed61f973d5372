"""The front door: `unmask demo` and `make demo` as a user meets them."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from tests import processes
from unmask.cli.demo import exactness
from unmask.cli.demo.stage import Stage

ROOT = Path(__file__).parent.parent


WHO, WHAT = ("goddess", "muse", "stranger", "child"), ("wrath", "ships", "winter", "road", "harbour")


def demo(*arguments, cwd=None):
    command = [sys.executable, "-m", "unmask", "demo", *map(str, arguments)]
    return processes.run(command, cwd=cwd, capture_output=True, text=True, timeout=300, check=False)


def test_the_parts(tmp_path):
    """Of a demo that trains for a moment only, without what takes long."""
    done = demo("--json", "--steps", 40, "--skip", "exact", "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    figures = json.loads(done.stdout)
    shipped_models_write_fill_score_and_draw(figures)
    a_model_of_shakespeare(figures)


def a_model_of_shakespeare(figures):
    unigram, ours, trigram = figures["train"]["held_out"]
    assert 2.8 < trigram["bits_per_character"] < 3 < 4.7 < unigram["bits_per_character"] < 4.9
    assert trigram["bits_per_character"] < ours["bits_per_character"] < 6.03  # uniform over 65 characters
    assert 0 < ours["error"] < 0.1
    assert [len(text) for text in figures["train"]["samples"]] == [64, 64]


def shipped_models_write_fill_score_and_draw(figures):
    assert len(figures["write"]["text"].split()) > 30
    for filled in figures["fill"]:
        assert filled.startswith("It was a dark night, and")
        assert filled.endswith("to the door.")
    assert len(set(figures["fill"])) == 3
    bits = {token["text"]: token["bits"] for token in figures["score"]["tokens"]}
    assert max(bits, key=bits.get).strip() in "banana"
    assert Path(figures["digits"]["picture"]).read_bytes().startswith(b"\x89PNG")


def test_a_text_of_ones_own(tmp_path):
    """The shipped model goes on with it: a few steps already make it likelier."""
    verses = [f"Sing, {who}, of the {what}; the sea is wide and the night is long." for who in WHO for what in WHAT]
    (tmp_path / "my.txt").write_text("\n".join(verses * 6))
    parts = ("write", "fill", "score", "digits", "exact")
    done = demo("--json", "--text", "my.txt", "--steps", 12, "--skip", *parts, "--out", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"my.txt", "out"}
    before, after = json.loads(done.stdout)["train"]["held_out"]
    assert after["bits_per_character"] + 3 * after["error"] < before["bits_per_character"] - 3 * before["error"]


def test_tight_bounds():
    """Within 5 standard errors."""
    for bound in exactness.tight_bounds(0):
        assert bound.largest_gap < (1e-10 if bound.name != "geometric" else 1e-3)
        assert abs(bound.bits_per_token - bound.true_bits_per_token) < 5 * bound.standard_error + 1e-3


def test_a_float32_draw_loses_rare_tokens():
    """A smaller vocabulary than the demo's, which shows it as well."""
    ours, legacy = exactness.draw_laws(0, Console(quiet=True), vocab_size=16_384, draws=64_000)
    assert ours.p_value > 1e-3 > legacy.p_value
    assert legacy.rare < 0.5 * legacy.expected_rare
    assert ours.rare > 0.9 * ours.expected_rare


def test_the_part_on_exactness(tmp_path, capsys):
    found = exactness.show(Stage(tmp_path, 0, 1, None, Console()), draws=640)
    assert len(found["bounds"]) == 5
    assert "joint float32" in capsys.readouterr().out


def test_make_demo_runs(tmp_path):
    """`make demo` itself, where its environment exists (in CI it always does)."""
    if not (ROOT / ".venv" / ".ready").exists():
        pytest.skip("no .venv: the tests run in another environment")
    command = ["make", "demo", f"DEMO=--steps 300 --skip exact digits fill score --out {tmp_path}"]  # to save time
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    assert "What is exact about it" not in done.stdout
    unigram = float(re.search(r"letter frequencies +([\d.]+)", done.stdout)[1])
    bits, error = map(float, re.search(r"masked diffusion.* ([\d.]+) ± ([\d.]+)", done.stdout).groups())
    assert bits + 10 * error < unigram - 0.4  # clearly below
    assert "unmask serve demo digits" in done.stdout


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (("--skip", "digts"), "no such part: got digts, allowed: write, fill, score, digits, train, exact"),
        (("--text", "nowhere.txt"), "no such text: got nowhere.txt"),
    ],
)
def test_mistakes(flags, says, tmp_path):
    done = demo(*flags, "--out", tmp_path / "out")
    assert done.returncode == 2
    assert says in done.stderr
    assert not (tmp_path / "out").exists()
