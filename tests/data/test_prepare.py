"""Preparation as a process: deterministic, parallel, resumable after a real kill, bounded in memory."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from unmask.cli.main import main
from unmask.data import Dataset, Manifest, Plan, prepare
from unmask.data import sources as data_sources
from unmask.data.files import glimpse
from unmask.data.sources import Reading
from unmask.files import alone


def corpus(path, lines=60_000):
    rng = np.random.default_rng(1)
    words = np.array(["alpha", "beta", "gamma", "delta", "epsilon", "zeta"])
    with path.open("w") as file:
        for _ in range(lines):
            file.write(" ".join(rng.choice(words, size=8)) + "\n")
    return path


def contents(folder):
    return {
        str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest()
        for p in sorted(folder.rglob("*"))
        if p.is_file()
    }


@pytest.fixture
def small_parts(monkeypatch):
    monkeypatch.setattr(data_sources.text, "PART", 100_000)


def test_the_same_bytes_with_any_number_of_workers(tmp_path, small_parts):  # noqa: ARG001
    source = corpus(tmp_path / "a.smi", 20_000)
    for workers in (1, 3):
        prepare(Plan(str(source), length=80), tmp_path / str(workers), workers=workers)
    assert contents(tmp_path / "1") == contents(tmp_path / "3")
    Dataset(tmp_path / "1").verify()


PREPARE = """
import sys
from pathlib import Path
from unmask.data import Plan, prepare, sources
sources.text.PART = 200_000
if __name__ == "__main__":
    prepare(Plan(sys.argv[1], vocabulary="bpe:400", length=64), Path(sys.argv[2]), workers=int(sys.argv[3]))
"""


def test_killed_at_any_moment_it_goes_on_to_the_same_bytes(tmp_path):
    """Real SIGKILLs at several moments; the finished folder equals that of an undisturbed run."""
    source = corpus(tmp_path / "a.jsonl.txt", 60_000)
    script = tmp_path / "run.py"
    script.write_text(PREPARE)

    def start(out):
        return subprocess.Popen([sys.executable, str(script), str(source), str(out), "2"], start_new_session=True)

    began = time.perf_counter()
    assert start(tmp_path / "undisturbed").wait() == 0
    took = time.perf_counter() - began
    killed, parts_seen = 0, set()
    for share in (0.15, 0.45, 0.6, 0.75, 0.9):
        process = start(tmp_path / "killed")
        time.sleep(share * took)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            killed += 1
        process.wait()
        work = tmp_path / "killed" / ".preparing"
        parts_seen.add(len(list(work.glob("part-??????"))) if work.exists() else -1)
    assert start(tmp_path / "killed").wait() == 0
    assert killed >= 2
    assert contents(tmp_path / "killed") == contents(tmp_path / "undisturbed")


@pytest.mark.parametrize("size", [1, 100, 1 << 16, (1 << 20) - 1, 1 << 20, 1 << 24])
def test_a_glimpse_sees_all_of_a_small_file_and_both_ends_of_a_large_one(size, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(content := bytes(size))
    before = glimpse(path)
    places = {0, size // 2, size - 1} if size <= 1 << 20 else {0, size - 1}
    for place in places:
        path.write_bytes(content[:place] + b"x" + content[place + 1 :])
        assert glimpse(path) != before, place
    path.write_bytes(content)
    assert glimpse(path) == before
    path.write_bytes(content + b"\0")
    assert glimpse(path) != before


def test_a_finished_folder_is_left_alone(tmp_path):
    source = corpus(tmp_path / "a.smi", 500)
    first = prepare(Plan(str(source)), tmp_path / "out")
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "out").rglob("*")}
    assert prepare(Plan(str(source)), tmp_path / "out") == first
    assert before == {p: p.stat().st_mtime_ns for p in (tmp_path / "out").rglob("*")}
    with pytest.raises(ValueError, match="holds other prepared data: got length: None → 40"):
        prepare(Plan(str(source), length=40), tmp_path / "out")
    text = source.read_text()
    source.write_text(text[:-2] + ("z" if text[-2] != "z" else "y") + text[-1])  # as long as before
    with pytest.raises(ValueError, match="holds other prepared data: got files"):
        prepare(Plan(str(source)), tmp_path / "out")
    source.write_text(text)
    assert prepare(Plan(str(source)), tmp_path / "out") == first
    with source.open("a") as file:
        file.write("alpha beta\n")
    with pytest.raises(ValueError, match="holds other prepared data: got files"):
        prepare(Plan(str(source)), tmp_path / "out")


def test_another_way_of_reading_is_not_another_file(tmp_path):
    """The message names what was changed, and nothing that was not."""
    (tmp_path / "a.csv").write_text("text,kind\n" + "abc,x\nabd,y\n" * 40)
    prepare(Plan(str(tmp_path / "a.csv")), tmp_path / "out")
    labelled = Plan(str(tmp_path / "a.csv"), reading=Reading(label_column="kind"))
    with pytest.raises(ValueError, match=r"holds other prepared data: got label_column: None → kind, allowed"):
        prepare(labelled, tmp_path / "out")


def test_no_row_is_longer_than_a_model_can_have():
    for length in (0, 20_000_000, 10**20):
        with pytest.raises(ValueError, match=rf"the length is out of range: got {length}, allowed: 1..16,777,216"):
            Plan("shakespeare", length=length)


def test_the_identity_is_that_of_the_contents(tmp_path):
    """Wherever they are; rows that are cut elsewhere and hold the same tokens are different data."""
    found = []
    for number, lines in enumerate(("ab\nabc", "ab\nabc", "abc\nab", "ab\ncab")):
        (tmp_path / f"{number}.txt").write_text(lines)
        prepare(Plan(str(tmp_path / f"{number}.txt"), kind="lines", valid=0, test=0), tmp_path / str(number))
        found.append(Dataset(tmp_path / str(number)).identity)
    assert found[0] == found[1]
    assert len(set(found)) == 3


def tables(folder, words):
    """The same texts as tables of several kinds, by name."""
    import pyarrow as pa
    from pyarrow import parquet

    folder.mkdir()
    table = pa.table({"text": words, "y": [str(i % 2) for i in range(len(words))]})
    parquet.write_table(table, folder / "a.parquet")
    texts = {
        "a.csv": "text,y\n" + "".join(f"{word or ''},{i % 2}\n" for i, word in enumerate(words)),
        "a.tsv": "y\ttext\n" + "".join(f"{i % 2}\t{word or ''}\n" for i, word in enumerate(words)),
        "a.jsonl": "".join(json.dumps({"text": word, "y": i % 2}) + "\n" for i, word in enumerate(words)),
        "a.fasta": "".join(f">{i}\n{word or ''}\n" for i, word in enumerate(words)),
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    return [*texts, "a.parquet"]


def test_rows_without_text_are_counted(tmp_path, capsys):
    """All else is as if they were absent: which documents are held out, every byte, the identity that runs store."""
    words = [f"{'ab' * (i % 5)}c" for i in range(150)]
    gaps = [word for i, text in enumerate(words) for word in ([text, None, ""] if i % 30 == 7 else [text])]
    tables(tmp_path / "full", words)
    for name in tables(tmp_path / "gaps", gaps):
        found = []
        for kind in ("full", "gaps"):
            out = tmp_path / f"{kind}-{name}"
            manifest = prepare(Plan(str(tmp_path / kind / name), vocabulary="bpe:259", rows=True), out)
            assert (manifest.empty, Manifest.load(out)) == (10 if kind == "gaps" else 0, manifest)
            files = {file: sha for file, sha in contents(out).items() if file != "manifest.json"}
            found.append((files, Dataset(out).identity))
        assert found[0] == found[1], name
    for words, said in ((["data", "info", str(out)], "10 rows without text left out"), (["info", str(out)], "10 rows")):
        assert main(words) == 0
        assert said in capsys.readouterr().out
    assert main(["data", "info", "--json", str(out)]) == 0
    assert json.loads(capsys.readouterr().out)["empty"] == 10


def test_a_table_without_any_text_is_named(tmp_path):
    (tmp_path / "a.csv").write_text("text,y\n,1\n,2\n")
    with pytest.raises(ValueError, match="the source holds no tokens: got 2 rows, all without text"):
        prepare(Plan(str(tmp_path / "a.csv"), vocabulary="bytes"), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_folder_with_something_else_in_it_is_refused(tmp_path):
    source = corpus(tmp_path / "a.smi", 500)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.tex").write_text("precious")
    with pytest.raises(ValueError, match="is not empty"):
        prepare(Plan(str(source)), tmp_path / "out")
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["thesis.tex"]


def test_long_documents_are_counted_not_cut(tmp_path):
    (tmp_path / "a.smi").write_text("\n".join(["C" * 5] * 90 + ["C" * 50] * 10))
    manifest = prepare(Plan(str(tmp_path / "a.smi"), length=20), tmp_path / "out")
    assert manifest.dropped == 10
    assert sum(s.documents for s in manifest.splits.values()) == 90


def test_held_out_shares_are_met(tmp_path):
    source = corpus(tmp_path / "a.smi", 2000)
    manifest = prepare(Plan(str(source), valid=0.1, test=0.02), tmp_path / "out")
    counts = {name: part.documents for name, part in manifest.splits.items()}
    assert counts["valid"] == pytest.approx(200, abs=5)
    assert counts["test"] == pytest.approx(40, abs=5)
    other = prepare(Plan(str(source), valid=0.1, test=0.02, seed=1), tmp_path / "other")
    assert contents(tmp_path / "out") != contents(tmp_path / "other")
    assert {n: p.documents for n, p in other.splits.items()}["valid"] == pytest.approx(200, abs=5)


def test_packed_windows_cross_shards_and_batches_are_pure(tmp_path, small_parts):  # noqa: ARG001
    source = corpus(tmp_path / "a.txt", 8_000)
    prepare(Plan(str(source), length=50), tmp_path / "out")
    dataset = Dataset(tmp_path / "out")
    assert len(dataset.manifest.shards) > 2
    split = dataset.split("train")
    whole = split.stream(0, split.tokens)
    rows = np.arange(len(split))
    assert np.array_equal(split.read(rows).tokens.ravel(), whole[: len(split) * 50])
    a, b = split.batch(seed=3, step=17, batch_size=8), Dataset(tmp_path / "out").split("train").batch(3, 17, 8)
    assert np.array_equal(a.tokens, b.tokens)
    halves = [split.batch(3, 17, 8, rank, 2).tokens for rank in range(2)]
    assert np.array_equal(np.concatenate(halves), a.tokens)
    later = split.batch(3, 17 + 5 * len(split), 8)
    assert later.tokens.shape == (8, 50)
    assert dataset.split("train", length=7).batch(0, 0, 3).tokens.shape == (3, 7)


def test_padding_is_marked(tmp_path):
    (tmp_path / "a.smi").write_text("\n".join(["CO"] * 50 + ["CCCC"] * 50))
    prepare(Plan(str(tmp_path / "a.smi")), tmp_path / "out")
    dataset = Dataset(tmp_path / "out")
    batch = dataset.split("train").batch(0, 0, 32)
    lengths = batch.valid.sum(1)
    assert set(lengths.tolist()) == {2, 4}
    assert (batch.tokens[~batch.valid] == dataset.vocabulary.eos_id).all()


def test_damage_is_found(tmp_path):
    source = corpus(tmp_path / "a.smi", 500)
    prepare(Plan(str(source)), tmp_path / "out")
    shard = tmp_path / "out" / Manifest.load(tmp_path / "out").shards[0].file
    data = bytearray(shard.read_bytes())
    data[7] ^= 1
    shard.write_bytes(data)
    with pytest.raises(ValueError, match="is damaged"):
        Dataset(tmp_path / "out").verify()
    shard.write_bytes(data[:100])
    with pytest.raises(ValueError, match="is damaged: got 100 bytes"):
        Dataset(tmp_path / "out")
    (tmp_path / "out" / "manifest.json").write_text('{"version": 1}')
    with pytest.raises(ValueError, match=r"manifest.json is damaged"):
        Dataset(tmp_path / "out")
    (tmp_path / "out" / "manifest.json").write_text('{"version": 99}')
    with pytest.raises(ValueError, match="unsupported version: got 99"):
        Dataset(tmp_path / "out")


def test_too_short_for_a_sequence(tmp_path):
    (tmp_path / "a.txt").write_text("abc " * 100)
    prepare(Plan(str(tmp_path / "a.txt"), length=64), tmp_path / "out")
    with pytest.raises(ValueError, match="shorter than one sequence: got 20 tokens, allowed: at least 64"):
        Dataset(tmp_path / "out").split("valid")
    with pytest.raises(ValueError, match="has no split 'dev'"):
        Dataset(tmp_path / "out").split("dev")


def test_shorter_than_one_sequence_is_said_and_kept(tmp_path, capsys):
    """It may still be read by a model with shorter sequences."""
    (tmp_path / "a.txt").write_text("hello")
    assert main(["data", "prepare", str(tmp_path / "a.txt"), "--out", str(tmp_path / "out")]) == 0
    assert "too short to train on: prepare it in another folder with a --length of at most 5" in capsys.readouterr().out
    assert main(["data", "info", str(tmp_path / "out"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows_per_split"] == {"train": 0}


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("abcdef\n" * 30, {"kind": "lines", "length": 3}, "no document fits into a row: got 30 documents, all longer"),
        ("abcdef\n", {"kind": "lines"}, r"no document fell into the split .* or other shares with --valid and --test"),
        ("abc", {"kind": "array"}, "a.txt cannot be read: got File is not a zip file, allowed: files of array"),
        ("abc", {"kind": "cifar10"}, "a.txt cannot be read: .*allowed: files of cifar10"),
        ("abc", {"kind": "images"}, "a.txt"),
        ("abc", {"kind": "parquet"}, "a.txt is not a Parquet file: got Parquet"),
    ],
)
def test_what_cannot_be_prepared_leaves_nothing(tmp_path, text, options, message):
    (tmp_path / "a.txt").write_text(text)
    with pytest.raises(ValueError, match=message):
        prepare(Plan(str(tmp_path / "a.txt"), **options), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_folder_is_written_by_one_process(tmp_path):
    source = corpus(tmp_path / "a.smi", 500)
    with alone(tmp_path / "out"), pytest.raises(ValueError, match="out is in use: got another process"):
        prepare(Plan(str(source)), tmp_path / "out")
    assert not (tmp_path / "out").exists()
    prepare(Plan(str(source)), tmp_path / "out")


@pytest.mark.parametrize(
    ("options", "message"),
    [({"valid": 0.7, "test": 0.4}, "together < 1"), ({"valid": -0.1}, "each >= 0"), ({"length": 0}, "got 0")],
)
def test_bad_plans(options, message):
    with pytest.raises(ValueError, match=message):
        Plan("x", **options)


def test_a_full_disk_loses_nothing(tmp_path, small_disk):
    """On a file system of 1 MiB the run fails with one line; finished parts stay; no incomplete manifest is left."""
    source = corpus(tmp_path / "a.smi", 60_000)
    done = subprocess.run(
        [sys.executable, "-m", "unmask", "data", "prepare", str(source), "--out", str(small_disk / "out")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert "no space left" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (small_disk / "out" / "manifest.json").exists()


MEASURE = """
import resource, sys
from pathlib import Path
from unmask.data import Plan, prepare
if __name__ == "__main__":
    prepare(Plan(sys.argv[1], vocabulary="bytes", length=256), Path(sys.argv[2]), workers=1)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def test_memory_does_not_grow_with_the_file(tmp_path):
    """Peak memory for 200 MB of text is within 60 MB of that for 10 MB."""
    (tmp_path / "run.py").write_text(MEASURE)
    line = b"all work and no play makes jack a dull boy\n"
    peaks = []
    for megabytes in (10, 200):
        source = tmp_path / f"{megabytes}.txt"
        with source.open("wb") as file:
            for _ in range(megabytes):
                file.write(line * (1_000_000 // len(line)))
        done = subprocess.run(
            [sys.executable, str(tmp_path / "run.py"), str(source), str(tmp_path / f"out{megabytes}")],
            capture_output=True,
            text=True,
            check=True,
        )
        peaks.append(int(done.stdout) / 1024)
    assert peaks[1] - peaks[0] < 60


def test_manifest_is_readable(tmp_path):
    source = corpus(tmp_path / "a.smi", 500)
    prepare(Plan(str(source)), tmp_path / "out")
    document = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert document["plan"]["source"] == str(source)
    assert (
        document["splits"]["train"]["documents"] + sum(document["splits"][s]["documents"] for s in ("valid", "test"))
        == 500
    )
    assert all(len(shard["sha256"]) == 64 for shard in document["shards"])
    assert not (tmp_path / "out" / ".preparing").exists()
    assert {p.name for p in Path(tmp_path / "out").iterdir()} >= {"manifest.json", "vocabulary.json", "shards"}
