"""What the code base promises about itself."""

import ast
import inspect
from pathlib import Path

import pytest

import unmask.core
import unmask.data
import unmask.evaluation
import unmask.networks
import unmask.run
import unmask.sampling
import unmask.training
from unmask.cli.main import COMMANDS
from unmask.cli.train import flags
from unmask.presets import PRESETS

SOURCE = Path(unmask.core.__file__).parent.parent
MODULES = sorted(SOURCE.rglob("*.py"))
GUARDS = {"__name__ == '__main__'", "TYPE_CHECKING", "HAVE_TRITON", "hasattr(os, 'register_at_fork')"}
module = pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(SOURCE)))


@module
def test_every_module_says_what_it_is(path):
    assert ast.get_docstring(ast.parse(path.read_text()))


@module
def test_importing_does_nothing_but_define(path):
    """No work, no configuration, no printing at import: only imports, definitions, constants and docstrings.

    What is to happen at a fork can be said in no other place; `random` and `threading` do the same.
    """
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    allowed = (ast.Import, ast.ImportFrom, *functions, ast.ClassDef, ast.Assign, ast.AnnAssign)
    for statement in ast.parse(path.read_text()).body:
        docstring = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        guarded = isinstance(statement, ast.If) and ast.unparse(statement.test) in GUARDS
        assert docstring or guarded or isinstance(statement, allowed), f"{path.name}:{statement.lineno}"


@module
def test_no_assert_validates_input(path):
    """python -O removes asserts; errors go through core.checks."""
    assert not [node.lineno for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Assert)]


@module
def test_files_stay_small(path):
    assert len(path.read_text().splitlines()) <= 400


ALIASES = {
    "DETOKENISERS",
    "ESTIMATORS",
    "PROTOCOLS",
    "LAWS",
    "Checker",
    "ORDERS",
    "MethodConfig",
    "NetworkConfig",
    "Objective",
} | {
    "SAMPLERS",
    "SETS",
    "SIZES",
    "Without",
}
PACKAGES = [unmask.core, unmask.data, unmask.networks, unmask.sampling, unmask.training, unmask.evaluation, unmask.run]


@pytest.mark.parametrize("package", PACKAGES, ids=lambda p: p.__name__)
def test_public_names_exist_and_are_documented(package):
    assert sorted(package.__all__) == sorted(set(package.__all__))
    for name in package.__all__:
        thing = getattr(package, name)
        assert name in ALIASES or inspect.getdoc(thing), name


SAMPLING = [
    *(
        "batch_size",
        "compile",
        "gif",
        "grid",
        "guidance",
        "html",
        "json",
        "label",
        "option",
        "out",
        "rising",
        "sampler",
        "seed",
    ),
    *("steps", "temperature", "top_k", "top_p", "trim"),
]


EVALUATION = [
    *("data", "draws", "estimator", "grid", "json", "raw", "repeats", "seed", "sequences", "split", "target_error"),
]


def test_the_command_line_is_this_and_no_more():
    """A new command or flag is a decision: change this list with it."""
    flags = {name: sorted(inspect.signature(command).parameters) for name, command in COMMANDS.items()}
    assert flags == {
        "demo": ["json", "out", "seed", "skip", "steps", "text"],
        "data prepare": [
            *("column", "grey", "image_size", "json", "kind", "label_column", "layout", "length", "out", "seed"),
            *("source", "test", "valid", "vocabulary", "workers"),
        ],
        "data info": ["examples", "folder", "json"],
        "bench train": [
            *("compare", "data", "json", "method", "out", "preset", "settings", "size", "window", "windows"),
        ],
        "bench sample": ["count", "json", "no_plain", "out", "preset", "repeats", "sampling_steps", "settings"],
        "sample": sorted([*SAMPLING, "count", "length", "max_length", "min_length", "model"]),
        "infill": sorted([*SAMPLING, "count", "image", "mask", "model", "prompts"]),
        "baselines": ["json"],
        "samplers": ["json", "length", "plot", "steps"],
        "eval": sorted(
            [*EVALUATION, "choices", "detokeniser", "model", "orders", "protocol", "sets", "steps", "text", "whole"]
        ),
        "compare": sorted([*EVALUATION, "first", "second", "steps"]),
        "check": ["checker", "data", "json", "samples"],
        "completion": ["json", "shell"],
        "info": ["examples", "json", "target"],
        "plot": ["format", "json", "models", "out", "steps"],
        "compress": ["file", "json", "model", "out", "steps"],
        "decompress": ["file", "json", "model", "out"],
        "export": ["best", "dtype", "json", "model", "out", "raw"],
        "push": ["best", "dtype", "json", "message", "model", "private", "raw", "repo"],
        "frontier": [
            *("batch_size", "checker", "count", "data", "features", "json", "judge", "model", "out", "samplers"),
            *("seed", "split", "steps", "temperatures"),
        ],
        "score": ["draws", "html", "json", "label", "model", "repeats", "seed", "text"],
        "serve": [
            *("host", "jobs", "json", "models", "port", "queue", "raw", "rows", "samples", "steps", "tokens"),
        ],
        "train": ["data", "dry_run", "json", "log", "method", "out", "parallel", "preset", "settings", "size", "start"],
    }


def test_the_fields_of_a_run_have_names_of_their_own():
    """Each can be set by its bare name, so no two may share one, nor take that of a flag of the command."""
    for make in PRESETS.values():
        names = [flag.replace("--no-", "--") for flag in flags(make().config)]
        assert len(names) == len(set(names))
        own = {f"--{name.replace('_', '-')}" for name in inspect.signature(COMMANDS["train"]).parameters}
        assert set(names) & own == {"--data", "--start"}
