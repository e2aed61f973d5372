"""Evaluation as a user does it: a small trained model, its folder, and the output about it."""

import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
import torch

from tests import processes
from tests.commands import command
from tests.small_models import trained
from unmask.cli.evaluate import verdict
from unmask.core import Streams
from unmask.data import Dataset, Plan, prepare
from unmask.evaluation import Difference, chain_rule
from unmask.evaluation.intervals import student95
from unmask.evaluation.sample_metrics import Value
from unmask.run import Run, load, zero_shot
from unmask.run.evaluate import Evaluation, evaluate
from unmask.run.frontier import Point, format_value
from unmask.run.orders import order_interval
from unmask.run.scored import scored
from unmask.sampling import Predictor
from unmask.training import OptimizerConfig


def test_eval_says_what_was_measured(letters, capsys):
    code, out, _ = command(capsys, "eval", letters, "--split", "valid", "--json")
    found = json.loads(out)
    assert code == 0
    assert 0 < found["bits_per_token"]["mean"] < 3  # 8 letters, every second one determined
    assert found["bits_per_token"]["monte_carlo"] <= found["bits_per_token"]["error"]
    assert found["bits_per_character"] == found["bits_per_token"]
    assert found["perplexity"]["low"] < found["perplexity"]["value"] < found["perplexity"]["high"]
    assert found["network_calls"] == 16 * found["sequences"]
    code, out, _ = command(capsys, "eval", letters, "--split", "valid")
    assert code == 0
    assert f"{found['bits_per_token']['mean']:.4f}" in out  # the same again, from the stored parts


def test_subwords_have_bits_of_three_kinds(subwords, capsys):
    _, out, _ = command(capsys, "eval", subwords, "--split", "valid", "--json")
    found = json.loads(out)
    assert found["bits_per_token"]["mean"] > found["bits_per_character"]["mean"]
    assert found["bits_per_character"]["mean"] == pytest.approx(found["bits_per_byte"]["mean"])  # plain English letters


@pytest.mark.parametrize("vocabulary", ["bytes", "bpe:258"])
def test_cut_characters_count_once(vocabulary, tmp_path):
    """Windows of 7 tokens begin and end within characters of 2 and 3 bytes."""
    text = "".join(np.random.default_rng(0).choice(list("éü日本a "), size=1500))
    (tmp_path / "a.txt").write_text(text)
    prepare(Plan(str(tmp_path / "a.txt"), vocabulary=vocabulary, length=7), tmp_path / "data")
    run = Run.open(trained(tmp_path / "data", tmp_path / "run"))
    found = evaluate(run, Evaluation("train", draws=1, repeats=2))
    split, total = Dataset(tmp_path / "data").split("train"), float(found.scores.nats.sum())
    whole = run.vocabulary.decode(split.stream(0, len(split) * 7))
    exact = {"byte": len(whole.rstrip("\N{REPLACEMENT CHARACTER}").encode()), "character": len(whole)}
    for unit, count in exact.items():
        assert total / found.per_unit[unit].mean == pytest.approx(count, abs=2)  # of the last character
    if vocabulary == "bytes":
        assert found.per_unit["byte"] == found.per_token


def test_compare_tells_apart_or_does_not(letters, capsys):
    code, out, _ = command(capsys, "compare", letters, letters, "--split", "valid")
    assert code == 0
    assert "not significant" in out
    _, out, _ = command(capsys, "compare", letters, letters, "--split", "valid", "--json")
    assert json.loads(out)["difference_bits_per_token"]["mean"] == 0
    _, out, _ = command(capsys, "compare", letters, letters, "--split", "valid", "--sequences", 1)
    assert "± – bits per token (unpaired: ± –): one sequence has no error" in out


def test_few_sequences_have_to_say_more():
    """Three errors away from zero: enough for many sequences, not for three (Student's t: 4.3)."""
    assert "b is better" in verdict(Difference(0.3, 0.1, 0.2, freedom=500), "a", "b")
    assert "a is better" in verdict(Difference(-0.3, 0.1, 0.2, freedom=500), "a", "b")
    assert "not significant" in verdict(Difference(0.3, 0.1, 0.2, freedom=2), "a", "b")


def test_models_of_different_data_are_not_compared(letters, tmp_path, capsys):
    """As many letters in as many rows, but different ones; measured now, and read from stored results."""
    text = "".join(c + c.upper() for c in np.random.default_rng(1).choice(list("abcd"), size=4000))
    (tmp_path / "a.txt").write_text(text)
    prepare(Plan(str(tmp_path / "a.txt"), length=16), tmp_path / "data")
    other = trained(tmp_path / "data", tmp_path / "run", steps=1)
    for _ in range(2):
        code, out, err = command(capsys, "compare", letters, other, "--split", "valid", "--sequences", 4)
        assert code == 2
        assert "the models were scored on different sequences" in err
        assert (err.count("\n"), out) == (1, "")
    code, _, _ = command(capsys, "compare", letters, other, "--split", "valid", "--data", tmp_path / "data")
    assert code == 0


def test_steps_and_targets(letters):
    run = Run.open(letters)
    few = evaluate(run, Evaluation("valid", steps=2, draws=8, repeats=8))
    continuous = evaluate(run, Evaluation("valid", draws=8, repeats=8))
    assert few.per_token.mean > continuous.per_token.mean
    near = evaluate(run, Evaluation("valid", target_error=0.01, draws=2))
    assert near.settings["repeats"] > 2
    assert near.per_token.monte_carlo / np.log(2) < 0.014


def test_some_sequences_stand_for_all(letters, tmp_path):
    """For a text that is easy at first and then hard, the cost of sixteen windows is ten times closer to that of all
    than the first sixteen, which are all easy. The cost of a window does not depend on how many are scored.
    """
    noise = np.random.default_rng(2)
    easy = "".join(c + c.upper() for c in noise.choice(list("abcd"), size=1000))
    (tmp_path / "a.txt").write_text(easy + "".join(noise.choice(list("abcdABCD"), size=2000)))
    known = str(letters.parent / "data" / "vocabulary.json")
    prepare(Plan(str(tmp_path / "a.txt"), vocabulary=known, length=16, valid=0, test=0), tmp_path / "data")
    how = Evaluation("train", str(tmp_path / "data"), draws=8, repeats=2)
    whole, some = (evaluate(Run.open(letters), replace(how, sequences=count)) for count in (None, 16))
    assert set(some.scores.nats) <= set(whole.scores.nats)
    off = [abs(mean - whole.per_token.mean) for mean in (some.per_token.mean, whole.scores.nats[:16].mean() / 16)]
    assert off[0] < 0.1 * off[1]


def test_windows_of_text_have_errors_over_blocks_and_pictures_have_not(letters, pictures, capsys):
    """Ten blocks of the text leave nine degrees of freedom, fifty images 49; the same holds for texts and orders."""
    of_text = evaluate(Run.open(letters), Evaluation("train", draws=1, repeats=2, sequences=50))
    of_pictures = evaluate(Run.open(pictures), Evaluation("train", draws=1, repeats=2, sequences=50))
    assert (of_text.per_token.freedom, of_pictures.per_token.freedom) == (9, 49)
    code, out, _ = command(capsys, "eval", letters, "--split", "train", "--orders", 2, "--sequences", 12, "--json")
    assert (code, json.loads(out)["left_to_right"]["freedom"]) == (0, 9)
    assert of_text.document()["bits_per_token"]["freedom"] == 9
    high = math.exp(of_text.per_token.mean + student95(9) * of_text.per_token.error)
    assert of_text.document()["perplexity"]["high"] == pytest.approx(high)


def test_an_interrupted_evaluation_goes_on(letters, tmp_path, monkeypatch):
    """Killed while it works; finished parts are kept, and the result is that of an uninterrupted evaluation."""
    monkeypatch.setattr("unmask.run.evaluate._PART", 8)
    run = Run.open(letters)
    wanted = Evaluation("train", sequences=40, seed=5)
    whole = evaluate(run, wanted)
    folder = letters / "evals" / whole.name.rsplit("-", 3)[0]
    parts = sorted(folder.glob("part-*.npz"))
    assert len(parts) == 5
    before = {path: path.stat().st_mtime_ns for path in parts[:3]}
    for path in parts[3:]:
        path.unlink()
    again = evaluate(run, wanted)
    assert np.array_equal(again.scores.nats, whole.scores.nats)
    assert {path: path.stat().st_mtime_ns for path in parts[:3]} == before
    known = set((letters / "evals").glob("*/settings.json"))
    words = ["eval", str(letters), "--split", "train", "--repeats", "100000", "--seed", "9"]
    process = processes.Popen(
        [sys.executable, "-m", "unmask", *words],
        stdout=processes.PIPE,
        stderr=processes.PIPE,
    )
    while set((letters / "evals").glob("*/settings.json")) == known:  # until it is working
        assert process.poll() is None
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"stopped" in err
    del tmp_path


def test_score_shows_and_writes(letters, tmp_path, capsys):
    page = tmp_path / "heat.html"
    code, out, _ = command(capsys, "score", letters, "aAbBaB", "--html", page, "--json")
    found = json.loads(out)
    assert code == 0
    assert [token["text"] for token in found["tokens"]] == list("aAbBaB")
    assert found["bits"] == pytest.approx(sum(token["bits"] for token in found["tokens"]))
    wrong = found["tokens"][4]["bits"] + found["tokens"][5]["bits"]  # aB is not a pair
    assert wrong > found["tokens"][2]["bits"] + found["tokens"][3]["bits"]
    assert page.read_text().count("<span") == 6
    (tmp_path / "text.txt").write_text("aAbB")
    code, out, _ = command(capsys, "score", letters, tmp_path / "text.txt")
    assert code == 0
    assert out.startswith("aAbB")
    assert "per token" in out


def test_score_reads_the_standard_input(letters):
    words = [sys.executable, "-m", "unmask", "score", letters, "-", "--json"]
    done = subprocess.run(words, input=b"aAbB\n", capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert [token["text"] for token in json.loads(done.stdout)["tokens"]] == list("aAbB")


def test_ends_of_lines_are_scored_as_they_are(tmp_path, capsys):
    """Windows's too."""
    (tmp_path / "a.txt").write_bytes(b"ab\r\n" * 400)
    prepare(Plan(str(tmp_path / "a.txt"), length=16), tmp_path / "data")
    trained(tmp_path / "data", tmp_path / "run")
    (tmp_path / "b.txt").write_bytes(b"ab\r\nab")
    code, out, _ = command(capsys, "score", tmp_path / "run", tmp_path / "b.txt", "--json")
    assert code == 0
    assert [token["text"] for token in json.loads(out)["tokens"]] == list("ab\r\nab")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["eval", "RUN", "--split", "nope"], "has no split 'nope'"),
        (["eval", "RUN", "--repeats", "1"], "repeats is too small"),
        (["eval", "RUN", "--sequences", "0"], "sequences is too small"),
        (["eval", "RUN", "--steps", "8", "0"], "steps is too small"),
        (["eval", "RUN", "--target-error", "0"], "the target error is not positive"),
        (["eval", "RUN", "--target-error", "0.1", "--repeats", "3"], "the target error decides the repeats: got both"),
        (["eval", "nowhere"], "is not a run"),
        (["eval", "RUN", "--data", "OTHER"], "the data and the model have different vocabularies"),
        (["score", "RUN", "xyz"], "is not in the vocabulary"),
        (["check", "nowhere.txt", "--checker", "brackets"], "nowhere.txt cannot be used: got no such file"),
        (["check", "RUN/config.json", "--checker", "brackets"], "does not hold samples"),
        (["check", "BINARY", "--checker", "brackets"], "is not UTF-8: got byte 0xff"),
        (["score", "RUN", "BINARY"], "is not UTF-8: got byte 0xff"),
        (["check", "RUN/config.json", "--checker", "chess"], "unknown checker"),
        (["score", "RUN", "a" * 17], "the text does not fit the model"),
        (["score", "RUN", ""], "there is nothing to score"),
        (["score", "RUN", "ab", "--label", "1"], "no such class: got 1, allowed: none: the model has no classes"),
        (
            ["score", "RUN", "ab", "--temperature", "1"],
            "unknown arguments, or in the wrong place: got --temperature 1, allowed: what",
        ),
        (["frontier", "RUN", "--features", "a:b"], "texts are not measured by --features: got a:b, allowed: --judge"),
        (["frontier", "RUN", "--checker", "chess"], "unknown checker: got chess"),
        (["score", "RUN", "ab", "--repeats", "1"], "repeats is too small: got 1"),
    ],
)
def test_bad_input_is_one_line(letters, subwords, words, message, capsys, tmp_path):
    (tmp_path / "model").write_bytes(b"a\xff")
    places = {"RUN": letters, "OTHER": subwords.parent / "data", "RUN/config.json": letters / "config.json"}
    places |= {"BINARY": tmp_path / "model"}
    code, out, err = command(capsys, *(places.get(word, word) for word in words))
    assert code == 2
    assert message in err
    assert err.count("\n") == 1
    assert out == ""
    assert os.listdir(letters)


def test_what_a_program_reads_is_standard_json(letters, tmp_path, capsys):
    """The error of one sequence is unknown: null, not Python's NaN, in what is printed and in what is stored."""
    run = shutil.copytree(letters, tmp_path / "run", ignore=shutil.ignore_patterns("evals"))
    code, out, _ = command(capsys, "eval", run, "--sequences", 1, "--json")
    assert code == 0
    (kept,) = (run / "evals").glob("test-*.json")
    for text in (out, kept.read_text()):
        found = json.loads(text, parse_constant=pytest.fail)
        assert found["bits_per_token"]["mean"] > 0
        assert found["bits_per_token"]["error"] is None
    code, out, _ = command(capsys, "info", run)
    assert code == 0
    assert re.search(r"test: [\d.]+ bits per token, 1 of \d+ sequences", out)


def test_the_interval_of_one_sequence_of_a_text_is_not_known(subwords, tmp_path, capsys):
    run = shutil.copytree(subwords, tmp_path / "run", ignore=shutil.ignore_patterns("evals"))
    text = tmp_path / "a.txt"
    text.write_text("the cat sat on the mat " * 20)
    code, out, _ = command(capsys, "eval", run, "--text", text, "--sequences", 1, "--json")
    assert code == 0
    (kept,) = (run / "evals").glob("zero-shot-*.json")
    for content in (out, kept.read_text()):
        found = json.loads(content, parse_constant=pytest.fail)
        assert (found["perplexity"]["low"], found["bits_per_token"]["error"]) == (None, None)
    code, out, _ = command(capsys, "eval", run, "--text", text, "--sequences", 1)
    assert code == 0
    assert re.search(r"perplexity [\d.]+ \(–\) per token", out)


def test_a_vocabulary_of_the_same_size_is_another(tmp_path):
    for name, text in (("a", "abcd" * 200), ("b", "efgh" * 200)):
        (tmp_path / f"{name}.txt").write_text(text)
        prepare(Plan(str(tmp_path / f"{name}.txt"), length=16), tmp_path / name)
    trained(tmp_path / "a", tmp_path / "run")
    said = "got 4 characters, allowed: the model's own 4 characters; prepare it with --vocabulary"
    with pytest.raises(ValueError, match=said):
        evaluate(Run.open(tmp_path / "run"), Evaluation("test", data=str(tmp_path / "b")))


def test_a_text_may_be_longer_than_a_name_can_be(letters, capsys):
    code, _, err = command(capsys, "score", letters, "aAbB" * 200, "--json")
    assert code == 2  # it is longer than the model, too
    assert err.startswith("the text does not fit the model: got 800 tokens")


def test_a_name_that_is_no_file_is_said_to_be_taken_for_a_text(letters, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("aAbB")
    for words, noted in (("a.txt", False), ("aAbB", False), ("aA", False)):
        _, _, err = command(capsys, "score", letters, words)
        assert ("there is no file" in err) is noted, words
    code, _, err = command(capsys, "score", letters, "b.aA")
    assert err.startswith("there is no file b.aA: scoring the argument itself as text")
    assert code == 2  # it has no point either


def test_an_interrupted_measurement_says_what_is_kept(letters, capsys, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("unmask.cli.evaluate.evaluate", interrupted)
    code, _, err = command(capsys, "eval", letters)
    assert code == 130
    assert err == f"stopped; finished parts are kept in {letters}/evals; run the same command again to resume\n"


def test_an_exported_model_is_compared_on_the_data_of_the_run(letters, tmp_path, capsys):
    run = shutil.copytree(letters, tmp_path / "run")
    assert command(capsys, "export", run, tmp_path / "model")[0] == 0
    for pair in ((run, tmp_path / "model"), (tmp_path / "model", run)):
        code, out, _ = command(capsys, "compare", *pair, "--sequences", 4)
        assert code == 0
        assert "not significant" in out


def test_characters_of_several_tokens_are_shown_whole(capsys, tmp_path, monkeypatch):
    """A single byte is not a character: its bits are those of the character it belongs to."""
    monkeypatch.chdir(tmp_path)
    code, out, _ = command(capsys, "score", "demo", "日本 é", "--draws", 1, "--repeats", 2)
    assert code == 0
    assert out.startswith("日本 é\n")
    assert "'日' " in out
    code, out, _ = command(capsys, "score", "demo", "日本 é", "--draws", 1, "--repeats", 2, "--json")
    found = json.loads(out)
    assert "".join(token["text"] for token in found["tokens"]) == "日本 é"
    assert found["bits"] == pytest.approx(sum(token["bits"] for token in found["tokens"]))


def test_samples_of_a_file_are_checked(letters, tmp_path, capsys):
    """Lines, or what `unmask sample` wrote; the training rows are known, the rest is new."""
    (tmp_path / "lines.txt").write_text("()\n\n[]\n(]\n()\n")
    code, out, _ = command(capsys, "check", tmp_path / "lines.txt", "--checker", "brackets")
    assert code == 0
    assert "75.00% ± 23.57%  of 4 samples" in out
    assert "66.67% ± 28.28%  of 3 valid ones" in out
    assert "not valid, for example: '(]'" in out
    assert "novel" not in out
    data = letters.parent / "data"
    split = Dataset(data).split("train")
    row = Dataset(data).vocabulary.decode(split.read(np.array([len(split) - 1])).tokens)
    (tmp_path / "samples.json").write_text(json.dumps([{"text": text} for text in (row, "", "((")]))
    words = ("check", tmp_path / "samples.json", "--checker", "brackets", "--data", data, "--json")
    found = json.loads(command(capsys, *words)[1])
    assert found["valid"]["value"] == pytest.approx(2 / 3)
    assert (found["novel"]["value"], found["novel"]["of"]) == (0.5, 2)
    (tmp_path / "lines.txt").write_text("(\n")
    code, out, _ = command(capsys, "check", tmp_path / "lines.txt", "--checker", "brackets", "--json")
    assert json.loads(out) == {"valid": {"value": 0, "of": 1, "error": pytest.approx((1 / 3 * 2 / 3) ** 0.5)}}


def frontier(capsys, run, tmp_path, *words):
    code, out, err = command(capsys, "frontier", run, "--out", tmp_path / "frontier", "--json", *words)
    return code, json.loads(out) if code == 0 else err


def test_settings_of_a_sampler_are_lines_of_their_own():
    """Unless an option takes the place of steps."""

    def curve(name, steps, **options):
        return Point(name, steps, 1.0, 6, 2.0, 0.1, {}, options).curve

    assert curve("remask-cap", 8, eta=0.02) == curve("remask-cap", 16, eta=0.02) != curve("remask-cap", 8, eta=0.1)
    assert curve("first-hitting", None, tokens_per_call=2) == curve("first-hitting", None, tokens_per_call=4)


def test_frontier_of_text(letters, capsys, tmp_path):
    words = ("--samplers", "ancestral", "first-hitting", "--steps", 2, 4, "--temperatures", 1, 0.5, "-n", 6)
    code, points = frontier(capsys, letters, tmp_path, *words, "--split", "valid")
    assert code == 0
    assert [(p["sampler"], p["steps"], p["temperature"]) for p in points] == [
        ("real data", None, 1),
        *(("ancestral", steps, temperature) for temperature in (1, 0.5) for steps in (2, 4)),
        *(("first-hitting", None, temperature) for temperature in (1, 0.5)),
    ]
    real, hasty, *_, exact, _ = points
    assert exact["calls"] == 16
    assert set(real["values"]) == set(hasty["values"]) >= {"3-gram perplexity", "unigram entropy, bits"}
    assert real["values"]["3-gram perplexity"]["value"] < hasty["values"]["3-gram perplexity"]["value"]
    folder = tmp_path / "frontier"
    assert (folder / "frontier.png").read_bytes()[:4] == b"\x89PNG"
    assert "| ancestral, 2 steps, temperature 0.5 |" in (folder / "frontier.md").read_text()
    stored = {path: path.stat().st_mtime_ns for path in (folder / "points").iterdir()}
    assert len(stored) == 6
    (folder / "frontier.json").unlink()
    again = frontier(capsys, letters, tmp_path, *words, "--split", "valid")
    assert again == (0, points)  # finished points are not sampled again
    assert {path: path.stat().st_mtime_ns for path in (folder / "points").iterdir()} == stored


@pytest.mark.parametrize("columns", [80, 200])
def test_the_frontier_fits_the_terminal(columns, letters, capsys, tmp_path, monkeypatch):
    """No line is too long, and no number is broken or cut."""
    monkeypatch.setenv("COLUMNS", str(columns))
    words = ("--samplers", "ancestral", "first-hitting:tokens_per_call=4", "--steps", 2, "-n", 6, "--split", "valid")
    _, out, _ = command(capsys, "frontier", letters, "--out", tmp_path / "frontier", *words)
    lines = out.splitlines()
    assert max(map(len, lines[:-1])) <= columns
    for point in json.loads((tmp_path / "frontier" / "frontier.json").read_text())["points"]:
        for value in point["values"].values():
            assert any(format_value(Value(**value)) in line for line in lines)


def test_frontier_of_pictures_and_molecules(pictures, molecules, capsys, tmp_path):
    code, points = frontier(capsys, pictures, tmp_path / "a", "--steps", 2, "-n", 4)
    assert code == 0
    assert "Fréchet distance of pixels" in points[1]["values"]
    pytest.importorskip("rdkit")
    _, points = frontier(
        capsys, molecules, tmp_path / "b", "--steps", 2, "-n", 4, "--checker", "smiles", "--split", "valid"
    )
    assert points[0]["values"]["valid"]["value"] == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--samplers", "best"), "best"),
        (("-n", 1), "too few samples"),
        (("--split", "tset"), "tset"),
        (("--checker", "chess"), "unknown checker"),
        (("--steps", 0), "steps"),
    ],
)
def test_frontier_refuses(words, said, letters, capsys, tmp_path):
    code, err = frontier(capsys, letters, tmp_path, *words)
    assert code == 2
    assert said in err
    assert err.count("\n") == 1
    assert not (tmp_path / "frontier").exists()


def test_steps_stand_beside_continuous_time(letters, capsys):
    """The form of the paper's discretisation table; in Markdown and as a plot too."""
    words = ("eval", letters, "--split", "valid", "--steps", 1, 8, "--draws", 8, "--repeats", 8)
    code, out, _ = command(capsys, *words, "--json")
    assert code == 0
    found = json.loads(out)
    assert [one["steps"] for one in found] == [None, 1, 8]
    continuous, one, eight = (one["bits_per_token"]["mean"] for one in found)
    assert continuous < eight < one
    _, out, _ = command(capsys, *words)
    assert all(word in out for word in ("continuous time", "1 steps", "8 steps"))
    (table,) = (letters / "evals").glob("valid-*-steps.md")
    assert f"| 8 steps | {eight:.4f} ±" in table.read_text()
    assert table.with_suffix(".png").read_bytes()[:4] == b"\x89PNG"


def test_a_control_variate_changes_the_error_and_not_the_mean(letters):
    run, how = Run.open(letters), {"draws": 16, "repeats": 8}
    plain = evaluate(run, Evaluation("valid", **how))
    controlled = evaluate(run, Evaluation("valid", estimator="controlled", **how))
    apart = abs(plain.per_token.mean - controlled.per_token.mean)
    assert apart < 5 * np.hypot(plain.per_token.monte_carlo, controlled.per_token.monte_carlo)  # false alarm 1e-6
    assert controlled.per_token.monte_carlo < plain.per_token.monte_carlo


def test_orders_hold_the_likelihood_between_bounds(letters, capsys):
    words = ("eval", letters, "--split", "valid", "--orders", 6, "--sequences", 24)
    code, out, _ = command(capsys, *words, "--json")
    assert code == 0
    found = json.loads(out)
    assert found["tighter_bound"]["mean"] <= found["bound"]["mean"]
    assert found["other_side"]["mean"] < found["tighter_bound"]["mean"]
    assert found["left_to_right"]["mean"] < 3
    assert [name for name, figure in found.items() if isinstance(figure, dict) and "monte_carlo" not in figure] == [
        "tighter_bound",
        "other_side",
    ]
    assert found["left_to_right"]["monte_carlo"] == 0  # nothing is drawn
    code, out, _ = command(capsys, *words)
    assert code == 0
    assert f"{found['tighter_bound']['mean']:.4f}" in out


def test_the_bound_of_orders_has_their_error(letters):
    """By hand: the spread over orders of each sequence, added up."""
    found = order_interval(Run.open(letters), Evaluation("valid", sequences=20), 4)
    model, split = load(letters), Dataset(letters.parent / "data").split("valid", 16)
    rows = torch.from_numpy(split.spread(20))
    tokens = torch.from_numpy(split.read(rows.numpy()).tokens)
    predict = Predictor(model.network, model.process.mask_id)
    nats = torch.stack([chain_rule(predict, model.process, tokens, Streams(0, rows, k)) for k in range(4)])
    error = (nats.var(0) / 4).sum().sqrt().item() / tokens.numel() / np.log(2)
    assert found["bound"]["monte_carlo"] == pytest.approx(error)


def test_two_ranks_give_the_same_figures(letters, capsys, tmp_path):
    """Each computes half of the parts; the first prints the result."""
    copy = tmp_path / "run"
    shutil.copytree(letters, copy, ignore=shutil.ignore_patterns("evals"))
    words = ["-m", "unmask", "eval", str(copy), "--split", "train", "--json"]
    start = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", *words]
    done = processes.run(start, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    _, out, _ = command(capsys, "eval", letters, "--split", "train", "--json")
    alone = json.loads(out)
    assert found["sequences"] > 256  # more than one part
    assert found == alone


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--steps", 0), "steps"),
        (("--orders", 1), "too few orders"),
        (("--estimator", "best"), "estimator"),
        (("--estimator", "paper", "--steps", 4), "steps have their own estimator: got paper"),
        (("--grid", "cosine"), "--grid has no effect without --steps: got cosine"),
    ],
)
def test_eval_refuses(words, said, letters, capsys):
    code, _, err = command(capsys, "eval", letters, "--split", "valid", *words)
    assert code == 2
    assert said in err
    assert err.count("\n") == 1


def test_orders_need_rows_of_one_length(molecules, capsys):
    code, _, err = command(capsys, "eval", molecules, "--split", "valid", "--orders", 2)
    assert code == 2
    assert "orders need rows of one length" in err


@pytest.mark.parametrize("method", ["ar", "block", "multinomial"])
def test_orders_are_those_of_masked_diffusion(method, letters, tmp_path, capsys):
    other = trained(letters.parent / "data", tmp_path / "run", method, steps=1)
    code, out, err = command(capsys, "eval", other, "--split", "valid", "--orders", 2, "--sequences", 2)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "the model does not support random orders" in err
    assert not (other / "evals").exists()


def test_orders_of_scores_are_measured(letters, tmp_path, capsys):
    other = trained(letters.parent / "data", tmp_path / "run", "sedd", steps=1)
    code, out, _ = command(capsys, "eval", other, "--split", "valid", "--orders", 2, "--sequences", 2, "--json")
    assert code == 0
    assert json.loads(out)["left_to_right"]["mean"] > 0


def test_pictures_have_bits_per_dimension(pictures, capsys):
    _, out, _ = command(capsys, "eval", pictures, "--json")
    found = json.loads(out)
    assert found["bits_per_dimension"] == found["bits_per_token"]
    assert "bits_per_character" not in found


def test_answered_questions_are_kept(subwords, capsys, tmp_path, monkeypatch):
    """An interrupted file of questions resumes with the part it was at."""
    path = tmp_path / "many.jsonl"
    question = json.dumps({"question": "the cat", "choices": ["sat on", "log"], "answer": 0})
    path.write_text("\n".join([question] * 150))
    words = ("eval", subwords, "--choices", path, "--json")
    asked = []
    real = zero_shot.answer
    monkeypatch.setattr(zero_shot, "answer", lambda n, q, *a, **k: asked.append(len(q)) or real(n, q, *a, **k))
    code, out, _ = command(capsys, *words)
    first = json.loads(out)
    assert (code, first["questions"], asked) == (0, 150, [64, 64, 22])
    (part,) = (subwords / "evals").glob("choices-many-*/part-000000064-*")
    part.unlink()
    code, out, _ = command(capsys, *words)
    again = json.loads(out)
    assert (code, asked) == (0, [64, 64, 22, 64])
    assert again["accuracy"] == first["accuracy"]


def test_ranks_divide_splits_only(letters, capsys, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    code, _, err = command(capsys, "eval", letters, "--orders", 2)
    assert code == 2
    assert "only a split is divided among ranks" in err


def test_the_likelihood_of_given_texts(letters):
    """The same values alone and together; what the model has learned is likely."""
    model = load(letters)
    texts = ["aAbBcCdD", "dDdD", "aaaaaaaa"]
    found = model.log_likelihood(texts)
    assert found[1] != model.log_likelihood(texts[1:2])[0]  # another number, other masks
    assert abs(found[1][0] - model.log_likelihood(texts[1:2])[0][0]) < 6 * found[1][1]
    assert found[0][0] > found[2][0]
    assert all(error > 0 for _, error in found)
    with pytest.raises(ValueError, match="the text does not fit the model"):
        model.log_likelihood(["aA" * 20])


def test_steps_on_another_grid(letters):
    run, how = Run.open(letters), {"steps": 4, "draws": 8, "repeats": 8}
    even, cosine = (evaluate(run, Evaluation("valid", grid=grid, **how)) for grid in ("uniform", "cosine"))
    assert even.per_token.mean != cosine.per_token.mean
    assert even.name != cosine.name


def test_an_autoregressive_model_judges(letters, capsys, tmp_path):
    """Pairs of letters that must agree: one bit per letter where they do, far more where they were drawn together."""
    rate = OptimizerConfig(rate=1e-2)
    how = {"width": 32, "steps": 150, "batch_size": 32, "average": 0.9, "optimizer": rate}
    judge = trained(letters.parent / "data", tmp_path / "judge", "ar", **how)
    words = ("--samplers", "ancestral", "first-hitting", "--steps", 1, "-n", 8, "--split", "valid")
    code, (real, hasty, exact) = frontier(capsys, letters, tmp_path, *words, "--judge", judge)
    assert code == 0
    real, hasty, exact = (p["values"]["generative perplexity"]["value"] for p in (real, hasty, exact))
    assert 2 <= real < 2.3  # four letters, and each again: one bit per letter
    assert exact < hasty / 2
    shutil.rmtree(judge)
    trained(letters.parent / "data", judge, "ar", **how | {"steps": 100})
    _, (_, again, _) = frontier(capsys, letters, tmp_path, *words, "--judge", judge)  # another: judged anew
    assert again["values"]["generative perplexity"]["value"] != hasty
    code, err = frontier(capsys, letters, tmp_path, *words, "--judge", letters)
    assert code == 2
    assert "only bounds the likelihood" in err


@pytest.fixture(scope="module")
def ragged(tmp_path_factory):
    """Rows of a's if their number is even, of b's if it is odd: the end of a row determines all of it."""
    folder = tmp_path_factory.mktemp("ragged")
    sizes = np.random.default_rng(0).integers(1, 12, 600)
    (folder / "a.txt").write_text("\n".join("ab"[n % 2] * n for n in sizes))
    prepare(Plan(str(folder / "a.txt"), kind="lines", rows=True), folder / "data")
    how = {"width": 32, "steps": 250, "batch_size": 32, "average": 0.9, "optimizer": OptimizerConfig(rate=1e-2)}
    return trained(folder / "data", folder / "run", **how)


def test_texts_of_different_length_are_scored_as_in_training(ragged):
    """The end of a row was always shown: without it half a bit per row remains, which letter it is."""
    model = load(ragged, device="cpu")
    for (log_p, _), text in zip(model.log_likelihood(["aaaa", "bbbbb"]), ("aaaa", "bbbbb"), strict=True):
        assert -log_p < 0.2 * len(text) * np.log(2)
        assert scored(model, text).total < 0.2 * len(text)


def test_rows_of_different_length_from_left_to_right(ragged, tmp_path, capsys):
    """What follows the end of a row is not given text: an autoregressive model previews and samples such rows."""
    run = trained(ragged.parent / "data", tmp_path / "ar", "ar", preview=2, validate_every=2)
    code, out, _ = command(capsys, "sample", run, "-n", 3)
    assert code == 0
    assert out


def test_guidance_needs_more_than_the_end_of_a_row(ragged, capsys):
    code, _, err = command(capsys, "sample", ragged, "-n", 1, "--guidance", 2)
    assert code == 2
    assert "there is nothing to guide by" in err
