"""The help is a table of contents, and the commands work in every terminal: real processes, real shells."""

import contextlib
import inspect
import json
import os
import pty
import re
import select
import subprocess
from pathlib import Path

import pytest

from tests import processes
from tests.commands import UNMASK
from tests.processes import several
from tests.small_models import trained
from unmask.cli.main import _WITH_SETTINGS, COMMANDS, GROUPS, main
from unmask.data import Plan, prepare
from unmask.training import OptimizerConfig

ROOT = Path(__file__).parent.parent
DOCUMENTS = "\n".join(path.read_text() for path in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")))
RANDOM = {"demo", "data prepare", "sample", "infill", "eval", "compare", "score", "frontier"}
"""Commands that draw something; train and the benches have --seed among the fields of their configuration."""


def test_the_help_is_a_table_of_contents(capsys):
    """Every command once, under its heading, on one line, within 80 columns."""
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 80
    assert [line for line in text.splitlines() if line in GROUPS] == list(GROUPS)
    assert re.findall(r"^  (\S+(?: \S+)?)  +\S", text, re.MULTILINE) == list(COMMANDS)
    assert main([]) == 0
    assert capsys.readouterr().out == text
    assert main(["data", "--help"]) == 0
    assert re.findall(r"^  (\S+(?: \S+)?)  +\S", capsys.readouterr().out, re.MULTILINE) == ["data prepare", "data info"]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_examples_and_json_and_is_documented(name, capsys):
    with contextlib.suppress(SystemExit):
        main([*name.split(), "--help"])
    text = capsys.readouterr().out
    assert "Example" in text
    assert f"unmask {name}" in text.split("Example", 1)[1]
    assert "--json" in text
    assert ("--seed" in text) == (name in RANDOM | {"train", "bench train", "bench sample"})
    assert f"unmask {name}" in DOCUMENTS


@pytest.mark.parametrize("name", _WITH_SETTINGS)
def test_help_names_the_fields_of_a_preset(name, capsys):
    assert main([*name.split(), "cifar10", "--help"]) == 0
    assert "--condition-width" in capsys.readouterr().out


@pytest.mark.parametrize("name", COMMANDS)
def test_help_fits_the_terminal(name, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "90")
    with contextlib.suppress(SystemExit):
        main([*name.split(), "--help"])
    own = re.split("^presets:", capsys.readouterr().out, flags=re.MULTILINE)[0]
    long = [line for line in own.splitlines() if len(line) > 90 and not line.startswith("  ")]
    assert not long  # examples stay as they are, to be copied


def test_the_list_of_random_commands_is_complete():
    assert {name for name, command in COMMANDS.items() if "seed" in inspect.signature(command).parameters} == RANDOM


# --------------------------------------------------------------------------------------------- completion


def completed(script, *words):
    """What a real bash offers for these words, the last of them unfinished."""
    code = f"""{script}
COMP_WORDS=({" ".join(f"'{word}'" for word in words)}); COMP_CWORD={len(words) - 1}
_tyro_unmask; printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    return subprocess.run(["bash", "-c", code], capture_output=True, text=True, check=True).stdout.split()


def test_bash_completes_commands_and_flags(capsys):
    assert main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    first = {name.split()[0] for name in COMMANDS}
    assert set(completed(script, "unmask", "")) >= first
    assert completed(script, "unmask", "sa") == ["sample", "samplers"]
    assert set(completed(script, "unmask", "data", "")) >= {"prepare", "info"}
    assert completed(script, "unmask", "data", "prepare", "--voc") == ["--vocabulary"]
    assert completed(script, "unmask", "export", "a", "b", "--dtype", "b") == ["bf16"]
    assert "complete -F" in script
    assert str(Path.cwd()) not in script


def test_zsh_and_others(capsys):
    assert main(["completion", "zsh", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["script"].startswith("#compdef unmask")
    assert main(["completion", "fish"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


# ----------------------------------------------------------------------------------------------- terminals

PLACES = {
    "ascii": {"PYTHONIOENCODING": "ascii"},
    "C": {"LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    "latin": {"PYTHONIOENCODING": "latin-1"},
    "narrow": {"COLUMNS": "8"},
    "dumb": {"TERM": "dumb"},
}


FEW = ("--draws", 1, "--repeats", 2)


@pytest.mark.parametrize("place", PLACES)
def test_no_terminal_is_too_plain(letters, place):
    command = several(
        ["--help"],
        ["score", "--help"],
        ["samplers"],
        ["info", letters],
        ["info", letters.parent / "data"],
        ["sample", letters, "-n", 1, "--steps", 2],
        ["score", letters, "aAbB", *FEW],
        ["score", "nowhere"],
        ["info", "nowhere"],
    )
    done = subprocess.run(command, capture_output=True, timeout=120, check=False, env=os.environ | PLACES[place])
    assert done.returncode == 0, done.stderr.decode()
    assert re.findall(rb"^exit (\d)", done.stdout, re.MULTILINE) == [b"0"] * 7 + [b"2"] * 2
    assert b"\033" not in done.stdout + done.stderr  # no colours, no moving cursor
    complaints = [line for line in done.stderr.splitlines() if b"network calls each" not in line]
    assert len(complaints) == 2
    if place in ("ascii", "C"):
        done.stdout.decode("ascii")
        assert re.search(rb"\d \+- \d", done.stdout)  # spelled, not lost
        assert b"?" not in done.stdout


def in_terminal(*commands, **environment):
    """Output of commands that believe to be in a terminal."""
    here, there = pty.openpty()
    environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"} | environment
    process = subprocess.Popen(several(*commands), stdin=there, stdout=there, stderr=there, env=environment)
    os.close(there)
    said = b""
    while select.select([here], [], [], 60)[0]:
        try:
            said += os.read(here, 65536)
        except OSError:  # the other end is closed
            break
    os.close(here)
    assert process.wait(60) == 0
    return said


@pytest.mark.parametrize(
    ("place", "coloured"),
    [
        ({"TERM": "xterm-256color"}, True),
        ({"TERM": "xterm-256color", "NO_COLOR": "1"}, False),
        ({"TERM": "dumb"}, False),
        ({"TERM": "xterm-256color", "COLUMNS": "6"}, True),
        ({"TERM": "xterm-256color", "PYTHONIOENCODING": "ascii"}, True),
    ],
    ids=["usual", "NO_COLOR", "dumb", "narrow", "ascii"],
)
def test_colours_in_a_terminal_that_has_them(letters, place, coloured):
    score, sample = ["score", letters, "aAbB", *FEW], ["sample", letters, "-n", 1, "--steps", 4]
    said = in_terminal(score, sample, ["info", "nowhere"], **place)
    assert re.findall(rb"exit (\d)", said) == [b"0", b"0", b"2"]
    shown, _, complaint = said.rpartition(b"###")
    assert (b"\033[48;" in shown) == coloured  # a background for each token
    assert (b"\033[31m" in complaint) == coloured


@pytest.fixture(scope="module")
def accents(tmp_path_factory):
    """A model of bytes, most of whose characters have several, and whose documents are short."""
    folder = tmp_path_factory.mktemp("accents")
    (folder / "a.jsonl").write_text('{"text": "é–ü–"}\n' * 400)
    prepare(Plan(str(folder / "a.jsonl"), vocabulary="bytes", length=32), folder / "data")
    rate = OptimizerConfig(rate=1e-2)
    return trained(folder / "data", folder / "run", width=32, steps=60, batch_size=16, optimizer=rate)


def test_a_terminal_shows_the_same_text_as_a_pipe(accents):
    """Characters of several bytes, --trim, texts longer than a line, several prompts; only colours come on top."""
    few = ("--steps", 8)
    commands = [
        ["sample", accents, "-n", 3, "--length", 64, *few],
        ["sample", accents, "-n", 2, "--trim", "--seed", 1, *few],
        ["infill", accents, "é–[MASK:9]é", *few],
        ["infill", accents, "é–[MASK:9]é", "ü[MASK:12]", *few],
    ]
    piped = processes.run(several(*commands), capture_output=True, timeout=120, check=True)
    shown = in_terminal(*commands, TERM="xterm-256color", COLUMNS="20")
    wanted, got = (text.decode().replace("\r\n", "\n").split("###\n")[1:] for text in (piped.stdout, shown))
    assert len(wanted) == len(got) == 4
    for text, coloured in zip(wanted, got, strict=True):
        final = re.sub(r"\033\[[0-9;?]*[A-Za-z]", "", re.split(r"\033\[2K|\033\[\?25h", coloured)[-1])
        assert text.partition("exit 0")[0].strip() == re.split(r"\d samples? in", final)[0].strip()
    trimmed, given = wanted[1].partition("exit")[0].split(), wanted[3].split()
    assert max(map(len, trimmed)) < 16  # of 32 tokens
    assert given[0].startswith("é–")
    assert given[1].startswith("ü")


def test_a_closed_pipe_is_no_mistake():
    """`unmask train --help | head -1`."""
    with subprocess.Popen([*UNMASK, "train", "--help"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


def test_nothing_moves_in_a_pipe(tmp_path):
    """Preparing and training write plain lines."""
    (tmp_path / "a.txt").write_text("abcd " * 400)
    small = {"steps": 2, "batch-size": 2, "layers": 1, "heads": 2, "width": 16, "preview": 0, "validation-sequences": 2}
    fields = [word for name, value in small.items() for word in (f"--{name}", value)]
    prepare = ["data", "prepare", tmp_path / "a.txt", "--out", tmp_path / "data", "--length", 16]
    train = ["train", "--data", tmp_path / "data", "--out", tmp_path / "run", *fields]
    done = subprocess.run(several(prepare, train), capture_output=True, timeout=120, check=True)
    assert done.stderr == b""
    assert done.stdout.count(b"exit 0") == 2
    assert done.stdout.decode().splitlines()[1].startswith(str(tmp_path / "data"))
    assert not re.search(rb"[\033\r]", done.stdout)
