"""All figures of a text model, from files of the sets' own form."""

import json
import lzma
import math
import shutil
import sys

from benchmarks import record as records
from benchmarks import text_counts, text_figures
from benchmarks.tables import likelihoods
from unmask.data import Dataset
from unmask.evaluation import find_text
from unmask.run import Run
from unmask.run.zero_shot import ZeroShot


def test_every_figure(subwords, tmp_path, monkeypatch):
    monkeypatch.setattr(records, "RESULTS", tmp_path)
    run = shutil.copytree(subwords, tmp_path / "run")  # figures are kept in it, and others look at theirs
    (tmp_path / "ptb.txt").write_text("the cat sat on the log\n" * 40)
    with lzma.open(tmp_path / "lambada.jsonl.xz", "wt") as file:
        file.write("\n".join([json.dumps({"text": "the dog sat on the mat and the cat sat"})] * 20))
    question = {"ctx": "the cat sat on the", "endings": [" mat", " dog", " the", " sat"], "label": "0"}
    (tmp_path / "q.jsonl").write_text("\n".join([json.dumps(question)] * 6))
    words = ["text/small", run, tmp_path, "--sets", "ptb", "lambada", "--steps", 4, 64]
    words += ["--questions", "q.jsonl", "--many", 3, "--draws", 2]
    monkeypatch.setattr(sys, "argv", ["benchmark", *map(str, words)])
    text_figures.main()
    found = json.loads((tmp_path / "text" / "small.json").read_text())
    assert [bound["steps"] for bound in found["held_out"]] == [None, 4, 64]
    assert [figures["set"] for figures in found["zero_shot"]] == ["ptb", "lambada"]
    assert all(figures["perplexity"]["low"] < figures["perplexity"]["high"] for figures in found["zero_shot"])
    assert found["zero_shot"][0]["detokeniser"] == ZeroShot(find_text("ptb", tmp_path)).rules
    assert found["questions"]["questions"] == 3
    assert str(tmp_path) not in json.dumps({name: found[name] for name in found if name != "command"})
    steps = likelihoods.text_steps(found)
    assert "| T | 4 | 64 | ∞ |" in steps
    words = ["text/counts", Run.open(run).config.data, tmp_path, "--sets", "ptb", "lambada", "--orders", 1, 2]
    monkeypatch.setattr(sys, "argv", ["benchmark", *map(str, words)])
    text_counts.main()
    counts = json.loads((tmp_path / "text" / "counts.json").read_text())
    rows = likelihoods.text_sets(found, counts).splitlines()
    assert [row.split("|")[1].strip() for row in rows[2:5]] == ["held out", "ptb", "lambada"]
    assert "3 questions: " in rows[6]
    uniform = math.log2(Dataset(Run.open(run).config.data).vocabulary.size)
    assert all(0 < orders[1]["mean"] < orders[0]["mean"] < uniform for orders in counts["sets"].values())
