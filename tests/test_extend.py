"""Parts of one's own: as good as ours, and never by accident."""

import re
import sys
from dataclasses import dataclass, field, make_dataclass

import pytest

from tests import processes
from tests.test_docs import PARTS
from unmask import extend, presets
from unmask.cli.main import main
from unmask.cli.train import apply
from unmask.configs import ADDED, from_json, to_json
from unmask.core import Linear
from unmask.networks import Conditioning, TransformerConfig
from unmask.run import RunConfig
from unmask.run.config import METHODS, method_name
from unmask.sampling import SAMPLERS
from unmask.sampling.samplers import options_of
from unmask.training import MD4Config, Needs
from unmask.training.md4 import SCHEDULES

TRAIN = ("train", "convolutions", "--data", "data", "--out", "run", "--steps", 3, "--batch-size", 4, "--preview", 0)


TABLES = (SAMPLERS, SCHEDULES, METHODS, presets.PRESETS, ADDED)


@pytest.fixture
def tables():
    """What a test adds is gone after it."""
    kept = [dict(table) for table in TABLES]
    yield
    for table, before in zip(TABLES, kept, strict=True):
        table.clear()
        table.update(before)


@pytest.fixture
def folder(tmp_path):
    """A little text, and the module of the documents."""
    (tmp_path / "parts.py").write_text(PARTS)
    (tmp_path / "text.txt").write_text("the cat sat on the mat " * 200)
    return tmp_path


def outcomes(folder, *commands):
    """What each command of one process printed, and its exit code."""
    done = processes.run(
        processes.several(*commands), capture_output=True, text=True, cwd=folder, timeout=200, check=False
    )
    parts = done.stdout.split("###")[1:]
    return [(part, int(re.search(r"exit (\w+)", part)[1])) for part in parts], done.stderr


def test_what_was_trained_with_a_part_needs_it_again(folder):
    """Trained, sampled, exported and loaded with the module; without it, one line that says how to name it."""
    use = ("--use", "parts.py")
    prepared = ("data", "prepare", "text.txt", "--out", "data", "--length", 16)
    found, said = outcomes(
        folder,
        (*use, *prepared),
        (*use, *TRAIN),
        (*use, "export", "run", "model"),
        (*use, "sample", "model", "-n", 1, "--sampler", "apart"),
        (*use, "samplers"),
    )
    assert [code for _, code in found] == [0] * 5, said
    assert "apart" in found[4][0]
    alone, said = outcomes(
        folder,
        ("sample", "model", "-n", 1),
        ("sample", "demo", "-n", 1, "--sampler", "apart"),
        ("train", "--out", "run"),
    )
    assert [code for _, code in alone] == [2, 2, 2]
    assert "config.json: unknown kind of configuration: got ConvolutionsConfig" in said.splitlines()[0]
    assert "unmask --use MODULE" in said.splitlines()[0]
    assert "unknown sampler: got apart" in said.splitlines()[1]
    assert len(said.splitlines()) == 3


@pytest.mark.usefixtures("tables")
def test_names_that_exist_cannot_be_taken():
    def nothing(*given):
        yield from given[:0]

    with pytest.raises(ValueError, match="there is already a sampler of this name: got ancestral"):
        extend.sampler("ancestral", summary="")(nothing)
    with pytest.raises(ValueError, match="unknown law: got exactly"):
        extend.sampler("mine", summary="", law="exactly")
    with pytest.raises(ValueError, match="unknown schedules: got any, allowed: ANY, SCALAR, POLYNOMIAL"):
        extend.sampler("mine", summary="", schedules="any")(nothing)
    with pytest.raises(ValueError, match="there is already a schedule of this name"):
        extend.schedule("cosine", Linear())
    with pytest.raises(ValueError, match="there is already a preset of this name"):
        extend.preset("text8")(presets.text8)
    for _ in range(2):  # as when a cell of a notebook runs twice
        extend.sampler("mine", summary="nothing")(nothing)
    assert SAMPLERS["mine"].run is nothing


@pytest.mark.usefixtures("tables")
def test_the_default_of_an_option_says_what_it_is():
    def optional(predict, process, x, grid, streams, *, most=None):
        yield predict, process, x, grid, streams, most

    def needed(predict, process, x, grid, streams, *, most: int):
        yield predict, process, x, grid, streams, most

    def fine(predict, process, x, grid, streams, *, shuffle=True, most=3, share=0.5, how="well"):
        yield predict, process, x, grid, streams, shuffle, most, share, how

    for run in (optional, needed):
        with pytest.raises(ValueError, match=r"the option most has no default of a known kind.*bool, int, float, str"):
            extend.sampler("mine", summary="")(run)
    assert "mine" not in SAMPLERS
    extend.sampler("mine", summary="")(fine)
    given = options_of("mine", ["shuffle=False", "most=7", "share=1", "how=badly"])
    assert given == {"shuffle": False, "most": 7, "share": 1.0, "how": "badly"}
    assert [options_of("mine", [f"shuffle={word}"])["shuffle"] for word in ("0", "no", "Yes", "1")] == [0, 0, 1, 1]
    with pytest.raises(ValueError, match="shuffle is not on or off: got maybe, allowed: true, false"):
        options_of("mine", ["shuffle=maybe"])
    with pytest.raises(ValueError, match="the value of most is not a number: got many, allowed: int"):
        options_of("mine", ["most=many"])


@pytest.mark.usefixtures("tables")
@pytest.mark.parametrize("name", ["steps", "layers", "data", "out", "no_compile"])
def test_fields_of_parts_have_names_of_their_own(name):
    """Each is a flag of `unmask train`."""
    mine = make_dataclass("Mine", [(name, int, 4)], bases=(MD4Config,), frozen=True, namespace={"__module__": "mine"})
    extend.method("mine")(mine)
    config = RunConfig("data", TransformerConfig(27), mine())
    said = f"--{name.removeprefix('no_')}, allowed: different ones in TransformerConfig, Mine and what all runs have"
    with pytest.raises(ValueError, match=f"two fields have one name: got {said}"):
        apply(config, ())


@pytest.mark.usefixtures("tables")
def test_configurations_are_what_they_must_be():
    @dataclass(frozen=True)
    class Sizeless:
        conditioning: int = 0

        def build(self):
            return None

    class Loose(Needs):
        def build(self, network):
            return network

    with pytest.raises(ValueError, match="of a network: got Sizeless without vocab_size, allowed: a dataclass with"):
        extend.network(Sizeless)
    with pytest.raises(ValueError, match="configuration of a method: got Loose, allowed: a dataclass with build"):
        extend.method("loose")(Loose)
    with pytest.raises(ValueError, match="this is not a method: got Sizeless"):
        extend.method("sizeless")(Sizeless)
    assert not {"loose", "sizeless"} & set(METHODS)


def taken(name, module="elsewhere"):
    """A network's configuration of this name."""

    @dataclass(frozen=True)
    class Config:
        vocab_size: int = 2
        conditioning: Conditioning = field(default_factory=Conditioning)

        def build(self):
            return None

    Config.__name__, Config.__module__ = name, module
    return Config


@pytest.mark.usefixtures("tables")
def test_the_name_of_a_class_is_what_a_run_knows_it_by():
    with pytest.raises(ValueError, match="another configuration has this name: got TransformerConfig"):
        extend.network(taken("TransformerConfig"))
    extend.network(taken("Mine"))
    extend.network(taken("Mine"))  # defined anew
    with pytest.raises(ValueError, match="another configuration has this name: got Mine"):
        extend.network(taken("Mine", "another_module"))


@pytest.mark.usefixtures("tables")
def test_what_could_not_be_loaded_again_is_not_trained():
    @dataclass(frozen=True)
    class Sharper(MD4Config):
        sharpness: float = 1.0

    unknown = taken("Unknown")()
    with pytest.raises(ValueError, match=r"with this part could not be loaded again: got Unknown.*unmask\.extend"):
        RunConfig("data", unknown)
    with pytest.raises(ValueError, match="with this part could not be loaded again: got Sharper"):
        RunConfig("data", TransformerConfig(27), Sharper())
    extend.method("sharper")(Sharper)
    config = RunConfig("data", TransformerConfig(27), Sharper(sharpness=2.0))
    assert from_json(RunConfig, to_json(config)) == config
    assert method_name(config) == "sharper"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--use"], "no module to use: got --use alone"),
        (["--use", "none.py", "samplers"], "there is no such file: got none.py"),
        (["--use", "no.such.module", "samplers"], "there is no such module: got no.such.module"),
        (["--use=none.py", "samplers"], "there is no such file: got none.py"),
        (["samplers", "--use", "none.py"], "there is no such file: got none.py"),
        (["--use", "math.py", "samplers"], "another module has this name: got math.py"),
    ],
)
def test_a_module_that_is_not_there_is_one_line(given, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "math.py").write_text("")
    assert main(given) == 2
    error = capsys.readouterr().err.strip()
    assert said in error
    assert "\n" not in error


BROKEN = {
    "no Python": ("x = 1\ndef (:\n", "line 2 of {path}: SyntaxError: invalid syntax"),
    "no UTF-8": (b"x = '\xe9'\n", "SyntaxError: "),
    "zeros": ("x\0 = 1\n", "SyntaxError: "),
    "another that is missing": (
        "\nimport nowhere_found\n",
        "line 2 of {path}: ModuleNotFoundError: No module named 'nowhere_found'",
    ),
    "another that is broken": ("\nimport broken_beside\n", "line 2 of {path}: ZeroDivisionError: division by zero"),
    "a name that is not there": ("from math import tao\n", "line 1 of {path}: ImportError: cannot import name 'tao'"),
    "a mistake of ours": (
        "from unmask import core, extend\n\nextend.schedule('cosine', core.Linear())\n",
        "line 3 of {path}: ValueError: there is already a schedule of this name: got cosine",
    ),
    "a function of its own": ("def f():\n    raise KeyError\n\n\nf()\n", "line 2 of {path}: KeyError,"),
    "several lines": ("raise RuntimeError('first\\nsecond')\n", "line 1 of {path}: RuntimeError: first, allowed"),
    "an end": ("import sys\nsys.exit(0)\n", "line 2 of {path}: SystemExit: 0"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_module_that_fails_is_one_line(kind, tmp_path, monkeypatch, capsys):
    """With the file, the line and the error."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    source, said = BROKEN[kind]
    path = tmp_path / "broken_parts.py"
    path.write_bytes(source if isinstance(source, bytes) else source.encode())
    (tmp_path / "broken_beside.py").write_text("1 / 0\n")
    for given in (["--use", str(path), "samplers"], ["--use", "broken_parts", "samplers"]):
        assert main(given) == 2
        out, error = capsys.readouterr()
        assert out == ""
        assert error.startswith(f"{given[1]} cannot be imported: got ")
        assert said.format(path=path) in error
        assert error.count("\n") == 1
    assert "broken_parts" not in sys.modules
