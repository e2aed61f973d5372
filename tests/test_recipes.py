"""The recipes start what they say, here with ranks on CPUs."""

import importlib.util
import json
import os
import random
import re
import shlex
import socket
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import other_data, tables
from benchmarks.other_data import SETTINGS
from unmask.cli.main import main
from unmask.data import Dataset, Plan, prepare

RECIPES = Path(__file__).parent.parent / "recipes"
SMALL = "characters --steps 2 --batch-size 4 --layers 1 --heads 2 --width 16 --preview 0"
SMALL = shlex.split(SMALL + " --validation-sequences 2")


def environment(**extra):
    python = Path(os.sys.executable).parent
    return os.environ | {"OMP_NUM_THREADS": "1", "PATH": f"{python}:{os.environ['PATH']}"} | extra


def test_one_node(tmp_path):
    done = subprocess.run(
        [str(RECIPES / "one_node.sh"), *SMALL, "--out", "run", "--parallel", "fsdp"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=environment(RANKS="2"),
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert (tmp_path / "run" / "checkpoints" / "step-00000002").exists()


def test_several_nodes(tmp_path):
    """Two agents on this machine, as on two: they meet at HEAD and train one run."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(RECIPES / "several_nodes.sh"), *SMALL, "--out", "run"]
    nodes = [
        subprocess.Popen(
            command,
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(NODES="2", HEAD=f"127.0.0.1:{port}", RANKS="1", JOB=f"test-{port}"),
        )
        for _ in range(2)
    ]
    said = [node.communicate(timeout=120)[1][-2000:] for node in nodes]
    assert [node.returncode for node in nodes] == [0, 0], said
    assert (tmp_path / "run" / "checkpoints" / "step-00000002").exists()


@pytest.mark.parametrize("name", sorted(path.name for path in RECIPES.iterdir() if path.suffix != ".py"))
def test_recipes_parse(name):
    shell = (RECIPES / name).read_text().splitlines()[0].removeprefix("#!/bin/")
    subprocess.run([shell, "-n", str(RECIPES / name)], check=True)
    assert os.access(RECIPES / name, os.X_OK)


def test_missing_variables_are_named(tmp_path):
    done = subprocess.run(
        [str(RECIPES / "several_nodes.sh"), "characters"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={k: v for k, v in environment().items() if k not in ("NODES", "HEAD")},
    )
    assert done.returncode != 0
    assert "how many machines" in done.stderr


# ------------------------------------------------------------------------------------------- other data


TINY = "--steps 2 --batch-size 4 --layers 1 --heads 1 --width 16 --preview 0 --validation-sequences 2"
ASK = """#!{python}
import json, socket, sys
with socket.socket(socket.AF_UNIX) as here:
    here.connect("{address}")
    here.sendall((json.dumps(sys.argv[1:]) + chr(10)).encode())
    sys.exit(int(here.makefile().readline()))
"""


@pytest.fixture
def followed(tmp_path, monkeypatch, capsys):
    """Run a recipe in miniature. Its `unmask` calls are answered by this process: a new one for each takes seconds."""
    monkeypatch.chdir(tmp_path)
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(tmp_path / "asked"))
    server.listen()
    server.settimeout(0.05)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "unmask").write_text(ASK.format(python=os.sys.executable, address=tmp_path / "asked"))
    (tmp_path / "bin" / "unmask").chmod(0o755)

    def follow(name, data, **extra):
        settings = environment(OUT="out", **extra)
        settings["PATH"] = f"{tmp_path / 'bin'}:{settings['PATH']}"
        recipe = subprocess.Popen([str(RECIPES / f"{name}.sh"), data, *TINY.split()], env=settings)
        while recipe.poll() is None:
            try:
                asked, _ = server.accept()
            except TimeoutError:
                continue
            with asked, asked.makefile("rw") as file:
                file.write(f"{main(json.loads(file.readline()))}\n")
        said = capsys.readouterr()
        assert recipe.returncode == 0, said.err
        return said.out, tmp_path / "out"

    yield follow
    server.close()


@pytest.fixture
def measured(tmp_path, monkeypatch):
    """What the benchmark records of the data that a recipe has prepared."""
    monkeypatch.setattr("benchmarks.record.RESULTS", tmp_path / "results")

    def measure(name, samples):
        tiny = f"{SETTINGS[name].flags} {TINY}"
        monkeypatch.setitem(SETTINGS, name, replace(SETTINGS[name], flags=tiny, orders=(1, 2)))
        other_data.measure(name, "out/data", Path("measured"), 0, None, samples)
        return json.loads((tmp_path / "results" / "other_data" / f"{name}.json").read_text())

    return measure


def test_molecules(tmp_path, followed, measured):
    pytest.importorskip("rdkit")
    (tmp_path / "moses").mkdir()
    for split, rows in (("train", ["CCO", "c1ccccc1", "CC(=O)N", "C#N"] * 5), ("test", ["CCN", "CCCl"] * 2)):
        (tmp_path / "moses" / f"{split}.csv").write_text("SMILES\n" + "\n".join(rows) + "\n")
    said, out = followed("molecules", "moses", SAMPLES="8", SEQUENCES="4")
    assert len(json.loads((out / "samples.json").read_text())) == 8
    assert "bits per character" in said
    assert re.search(r"valid .* of 8 samples", said)
    assert "molecules: 14 characters" in tables.likelihoods.other_data(measured("molecules", 8))
    other_data.check("out/data", Path("measured"), 0)
    assert json.loads((tmp_path / "results" / "other_data" / "validity.json").read_text())["valid"]["of"] == 8


def test_proteins(tmp_path, followed, measured):
    letters = random.Random(0)  # noqa: S311
    record = ">sp|P{0}|NAME OS=Somebody\n{1}\n".format
    residues = ["".join(letters.choices("ACDEFGHIKLMNPQRSTVWY", k=20 + n % 9)) for n in range(60)]
    (tmp_path / "some.fasta").write_text("".join(record(n, residue) for n, residue in enumerate(residues)))
    said, out = followed("proteins", "some.fasta", LENGTH="32", SAMPLES="4")
    assert "bits per character" in said
    assert "| real data |" in (out / "run" / "frontier" / "frontier.md").read_text()
    found = measured("proteins", 4)
    assert found["groups"]["strangers"] == found["groups"]["all"]  # random letters have no relatives
    found = found["sampled"]
    assert found["residues"]["train"].keys() == set("ACDEFGHIKLMNPQRSTVWY")
    assert found["judged"]["held out"]["frequencies off by"]["value"] > 0


def chorale(length, seed):
    """Sixteenths on a slow random walk; one of them has a rest, as in the real file."""
    steps, notes, found = random.Random(seed), [72, 67, 60, 48], []  # noqa: S311
    for _ in range(length):
        notes = [min(max(pitch + steps.choice((-1, 0, 0, 1)), 45), 76) for pitch in notes]
        found.append(list(notes))
    return [*found[:-1], found[-1][:3]]


def test_chorales(tmp_path, followed, measured):
    pieces = {split: [chorale(length, length) for length in (64, 68)] for split in ("train", "valid", "test")}
    (tmp_path / "bach.json").write_text(json.dumps(pieces))
    said, out = followed("chorales", "bach.json", SAMPLES="1")
    assert "bits per character" in said
    assert len((out / "harmonised.txt").read_text().split()) == 1
    for name in ("new-1.mid", "harmonised-1.mid"):
        assert (out / name).read_bytes()[:4] == b"MThd"
    found = measured("chorales", 2)
    assert found["sampled"]["samples"] == 2
    assert set(found["sampled"]["by_voice"]) == {"1", "2", "3"}
    assert found["result"]["tokens"] == 4 * (64 + 68)
    share, row = {"value": 0.5, "of": 8, "error": 0.25}, {"value": 4.0}
    proteins = found | {"sampled": {"samples": 3, "judged": {"samples": {"a": row}, "held out": {"a": row}}}}
    valid = found | dict.fromkeys(("valid", "unique", "novel"), share)
    assert "| 8 molecules | valid 50.0% ± 25.0%" in tables.samples.other_samples(valid, proteins, found)


@pytest.mark.parametrize("name", SETTINGS)
def test_the_benchmark_trains_as_the_recipe_does(name):
    (line,) = re.findall(r"^unmask train .*?\"\$@\"", (RECIPES / f"{name}.sh").read_text(), re.DOTALL | re.MULTILINE)
    own = re.sub(r"unmask train|--(data|out) \S+|\\\n|\"\$@\"", " ", line)
    assert sorted(own.split()) == sorted(SETTINGS[name].flags.split())


def test_strangers_share_no_run_with_the_training_data(tmp_path):
    (tmp_path / "lines").mkdir()
    (tmp_path / "lines" / "train.txt").write_text("abcdefgh\nhgfedcba\n")
    (tmp_path / "lines" / "test.txt").write_text("xxbcdexx\nabdcfehg\nab\n")
    prepare(Plan(str(tmp_path / "lines"), kind="lines"), tmp_path / "data")
    groups = other_data.by_relation(Dataset(tmp_path / "data"), length=4)
    assert groups["all"].tolist() == [True, True, True]
    assert groups["strangers"].tolist() == [False, True, True]


def notes():
    spec = importlib.util.spec_from_file_location("chorales", RECIPES / "chorales.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_windows_cover_a_piece_once_and_keys_stay_in_range():
    music = notes()
    piece = chorale(150, 0)
    cut = list(music.windows(piece, music.SIXTEENTHS))
    assert [chord for window in cut for chord in window] == piece
    assert [len(window) for window in music.windows(piece, music.HOP)] == [64] * 6 + [22]
    ranges = [(60, 80), (50, 80), (40, 80), (40, 80)]
    shifted = list(music.transposed(piece[:20], ranges))
    assert piece[:20] in shifted
    assert len(shifted) > 1
    pitches = [(pitch, *ranges[voice]) for p in shifted for chord in p for voice, pitch in enumerate(chord)]
    assert all(low <= pitch <= high for pitch, low, high in pitches)


def test_a_melody_is_a_text_with_gaps():
    music = notes()
    assert music.line([[36, 37, -1, 81], [62, 61, 60, 59]]) == "AB.taZYX"
    assert music.soprano("AB.taZYX") == "A___a___"


def test_midi_holds_the_notes():
    """Read back by the rules of the format: a held note is one, a rest is waited for."""
    music = notes()
    data = music.midi("bA.." * 2 + "b..." + "dA..")
    assert data[:14] == b"MThd" + bytes([0, 0, 0, 6, 0, 1, 0, 4, 1, 224])
    tracks = data[14:].split(b"MTrk")[1:]
    assert len(tracks) == 4
    b, d, a = (music.LOWEST + music.LETTERS.index(letter) for letter in "bdA")
    held = music.variable(360)
    assert held == b"\x82\x68"
    end = b"\x00\xff\x2f\x00"
    first = b"\x00" + bytes([0x90, b, 72]) + held + bytes([0x80, b, 0])
    second = b"\x00" + bytes([0x90, d, 72]) + music.variable(120) + bytes([0x80, d, 0])
    assert tracks[0][4:] == first + second + end
    assert tracks[1][4:].startswith(b"\x00" + bytes([0x91, a, 72]) + music.variable(240))
    assert tracks[2][4:] == tracks[3][4:] == end
    with pytest.raises(ValueError, match="this is not music"):
        music.midi("????")


@pytest.mark.parametrize("text", ["{}", "[", '{"train": [[[200]]], "valid": [], "test": []}'])
def test_what_is_no_chorale_is_one_line(tmp_path, text):
    (tmp_path / "bad.json").write_text(text)
    done = subprocess.run(
        [str(RECIPES / "chorales.sh"), "bad.json"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env=environment(),
    )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
