"""`unmask compress` and `decompress` as a user runs them: what went in comes out, or nothing does."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from tests import processes
from tests.processes import several
from tests.small_models import trained
from unmask.cli.main import main
from unmask.data import Dataset
from unmask.run import compression, load
from unmask.run.compression import Compressed, compress, decompress
from unmask.run.evaluate import Evaluation, evaluate
from unmask.run.folder import Run

TEXT = "aAbBcCdD" * 23 + "aA"
"""More than eleven windows of the model, the last one shorter; the characters come in pairs, which it has learned."""


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "a.txt"
    path.write_text(TEXT)
    return path


def test_a_text_becomes_small_and_comes_back(letters, file):
    """In two real processes, as a user has them, and with another model by that name in between."""
    done = processes.run(several(["compress", letters, "a.txt", "--json"]), cwd=file.parent, capture_output=True)
    said = json.loads(done.stdout.splitlines()[1])
    small = file.with_name("a.txt.unmask")
    assert said["compressed"] == small.stat().st_size
    assert said["bytes"] == len(TEXT)
    assert said["compressed"] - said["header"] < len(TEXT) / 2  # two bits a pair and 12 bytes, not a byte a character
    file.unlink()
    done = processes.run(several(["decompress", "a.txt.unmask"]), cwd=file.parent, capture_output=True, text=True)
    assert f"a.txt: {len(TEXT)} bytes, the same as before" in done.stdout
    assert file.read_text() == TEXT


@pytest.mark.parametrize("method", ["d3pm", "sedd"])
def test_models_that_see_the_time_and_scores_have_codes_too(method, letters, tmp_path):
    run = trained(Run(letters).config.data, tmp_path / "run", method=method)
    model = load(run)
    assert model.network.sees_time
    made = compress(model, "x", TEXT.encode(), steps=5)
    assert decompress(model, Compressed.from_bytes(made.to_bytes())) == TEXT.encode()


def test_subwords_of_bytes_write_any_text(subwords):
    text = "the cat — 🐈 — sat\r\n\x00on the mat".encode()
    model = load(subwords)
    assert decompress(model, compress(model, "x", text)) == text


def test_the_length_of_a_code_is_the_bound(letters):
    """Of a whole split, one token at a time: the two differ by the choice of orders, and by 96 bits and less.

    An order shows a sequence with each number of masks once, as sixteen draws do that are spread evenly, so its error
    is about twice that of the 64 here; eight of that are allowed, which is four per cent.
    """
    run, model = Run(letters), load(letters)
    found = evaluate(run, Evaluation(split="train", draws=8, repeats=8))
    rows = Dataset(run.config.data).split("train", run.facts.shape[0])
    text = model.vocabulary.spelt(rows.read(np.arange(len(rows))).tokens)
    code, bound = compress(model, "x", text, steps=run.facts.shape[0]).code, found.bits()["token"]
    allowed = 16 * bound.monte_carlo
    assert allowed < 0.04 * bound.mean
    assert abs((8 * len(code) - 96) / len(text) - bound.mean) < allowed


def test_progress_ends_at_the_end(letters):
    model, seen = load(letters), []
    made = compress(model, "x", TEXT.encode(), progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (len(TEXT), len(TEXT))
    assert seen == sorted(seen)
    seen.clear()
    decompress(model, made, lambda done, total: seen.append((done, total)))
    assert seen[-1] == (len(TEXT), len(TEXT))


# --------------------------------------------------------------------------------------------- bad input


def refused(capsys, *words):
    assert main([str(word) for word in words]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    return said.err


def with_header(header):
    """A file that is nothing else."""
    return b"unmask code 1\n" + len(header).to_bytes(4, "little") + header


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda c: c[:-4], "the text differs from what was compressed"),
        (lambda c: c[:-1], "the code is damaged"),
        (lambda c: c[:-30] + bytes([c[-30] ^ 1]) + c[-29:], "the text differs from what was compressed"),
        (lambda c: b"other" + c, "this is not a compressed text"),
        (lambda _: b"", "this is not a compressed text"),
        (
            lambda c: c[: c.index(b"}") + 1] + b"more" + c[c.index(b"}") + 1 :],
            "the text differs from what was compressed",
        ),
        (lambda c: c.replace(b'"tokens": 186', b'"tokens": 187'), "the text differs from what was compressed"),
        (lambda c: c.replace(b'"steps": 32', b'"steps": -2'), "the header is damaged"),
        (lambda c: c.replace(b'"steps": 32', b'"steps": "a"'), "the header is damaged"),
        (lambda c: c.replace(b'"tokens": 186', b'"tokens":2e10'), "the header is damaged"),
        (lambda c: c.replace(b'"tokens": 186', b'"tokens":true'), "the header is damaged"),
        (lambda c: c.replace(b'"rows": 16', b'"rows":257'), "the header is damaged"),
        (lambda _: with_header(b'{"model": ' + b"1" * 5000 + b"}"), "the header is damaged"),
        (lambda c: c.replace(b'"steps"', b'"stops"'), "the header is damaged"),
        (lambda c: c.replace(b'{"model"', b'["model"'), "the header is damaged"),
    ],
)
def test_damaged_files_are_refused_and_nothing_is_written(damage, said, letters, file, capsys):
    small = compress(load(letters), str(letters), TEXT.encode()).to_bytes()
    damaged = file.with_name("b.txt.unmask")
    damaged.write_bytes(damage(small))
    assert said in refused(capsys, "decompress", damaged)
    assert not file.with_name("b.txt").exists()


def test_another_machine_is_named(letters):
    """Sums that differ show themselves by what comes out; the message says where it can be read."""
    model = load(letters)
    made = compress(model, "x", TEXT.encode())
    header = replace(made.header, digest="0" * 16, torch="9.9", device="another processor")
    with pytest.raises(ValueError, match=r"allowed: 'torch 9\.9 on another processor'"):
        decompress(model, Compressed(header, made.code))


def test_another_model_is_refused(letters, subwords):
    made = compress(load(letters), "somewhere", TEXT.encode())
    with pytest.raises(ValueError, match=r"this is a different model: .* was called 'somewhere'"):
        decompress(load(subwords), made)


def test_what_is_there_is_not_replaced_unasked(letters, file, capsys):
    assert main(["compress", str(letters), "a.txt"]) == 0
    capsys.readouterr()
    assert "a.txt already exists" in refused(capsys, "decompress", "a.txt.unmask")
    assert "a.txt.unmask already exists" in refused(capsys, "compress", letters, "a.txt")
    assert "would replace the input" in refused(capsys, "compress", letters, "a.txt", "--out", "./a.txt")
    assert "would replace the input" in refused(capsys, "decompress", "a.txt.unmask", "--out", "a.txt.unmask")
    file.with_name("c.bin").write_bytes(file.with_name("a.txt.unmask").read_bytes())
    assert "does not end in .unmask" in refused(capsys, "decompress", "c.bin")
    assert main(["decompress", "c.bin", "--out", "d.txt"]) == 0
    assert file.with_name("d.txt").read_text() == TEXT


def test_what_has_no_code_is_one_line(letters, pictures, molecules, file, tmp_path, capsys):
    assert "not one of running text" in refused(capsys, "compress", pictures, file)
    assert "not one of running text" in refused(capsys, "compress", molecules, file)
    assert "steps is not positive" in refused(capsys, "compress", letters, file, "--steps", "0")
    causal = trained(Run(letters).config.data, tmp_path / "ar", method="ar")
    assert "the model does not support random orders" in refused(capsys, "compress", causal, file)
    learned = trained(Run(letters).config.data, tmp_path / "genmd4", method="genmd4")
    assert "one schedule for all tokens" in refused(capsys, "compress", learned, file)
    file.write_text("xyz")
    assert "'x' is not in the vocabulary" in refused(capsys, "compress", letters, file)
    file.write_text("")
    assert "nothing to compress" in refused(capsys, "compress", letters, file)
    assert "nowhere.txt cannot be used: got no such file" in refused(capsys, "compress", letters, "nowhere.txt")
    assert "got a folder" in refused(capsys, "compress", letters, file.parent)
    assert [path.name for path in tmp_path.glob("*.unmask")] == []


def test_a_vocabulary_that_forgets_is_refused(subwords):
    """The end of text is a token and no text: it would come back as nothing."""
    with pytest.raises(ValueError, match="the vocabulary cannot represent this text"):
        compress(load(subwords), "x", b"the cat<|endoftext|>the dog")


def test_a_text_is_read_with_as_many_threads_and_rows_as_it_was_written_with(letters, monkeypatch):
    """Sums may depend on both."""
    model, before, seen = load(letters), torch.get_num_threads(), set()

    def watched(done, _):
        seen.add((torch.get_num_threads(), done))

    try:
        torch.set_num_threads(before + 1)
        monkeypatch.setattr(compression, "_ROWS", 5)
        made = compress(model, "x", TEXT.encode(), progress=watched)
        written = seen.copy()
        torch.set_num_threads(before)
        monkeypatch.setattr(compression, "_ROWS", 16)
        seen.clear()
        assert decompress(model, made, watched) == TEXT.encode()
        assert torch.get_num_threads() == before
    finally:
        torch.set_num_threads(before)
    assert seen == written
    assert {threads for threads, _ in seen} == {before + 1}


def test_a_file_does_not_decide_what_is_fetched(letters, file, capsys):
    made = compress(load(letters), str(letters), TEXT.encode())
    for name in ("hub:someone/something", "nowhere/run\n\x1b[31m", "\x1b[31m\n" + "a" * 5000, "//host/share"):
        header = replace(made.header, model=name)
        file.with_name("b.unmask").write_bytes(Compressed(header, made.code).to_bytes())
        said = f"the model of this file was not found: got {name[:80]!r}"
        assert said in refused(capsys, "decompress", "b.unmask")
    assert main(["decompress", "b.unmask", "--model", str(letters)]) == 0
