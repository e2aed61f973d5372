"""What the code base promises about itself."""

import ast
import inspect
from pathlib import Path

import pytest

import unmask.core
import unmask.data
import unmask.networks
from unmask.cli.main import COMMANDS

SOURCE = Path(unmask.core.__file__).parent.parent
MODULES = sorted(SOURCE.rglob("*.py"))
module = pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(SOURCE)))


@module
def test_every_module_says_what_it_is(path):
    assert ast.get_docstring(ast.parse(path.read_text()))


@module
def test_importing_does_nothing_but_define(path):
    """No work, no configuration, no printing at import: only imports, definitions, constants and docstrings."""
    allowed = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef, ast.Assign, ast.AnnAssign)
    for statement in ast.parse(path.read_text()).body:
        docstring = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        guarded = path.name == "__main__.py" and isinstance(statement, ast.If)
        assert docstring or guarded or isinstance(statement, allowed), f"{path.name}:{statement.lineno}"


@module
def test_no_assert_validates_input(path):
    """python -O removes asserts; errors go through core.checks."""
    assert not [node.lineno for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Assert)]


@module
def test_files_stay_small(path):
    assert len(path.read_text().splitlines()) <= 400


@pytest.mark.parametrize("package", [unmask.core, unmask.data, unmask.networks], ids=["core", "data", "networks"])
def test_public_names_exist_and_are_documented(package):
    assert package.__all__ == sorted(package.__all__)
    for name in package.__all__:
        thing = getattr(package, name)
        assert name == "Objective" or inspect.getdoc(thing), name


def test_the_command_line_is_this_and_no_more():
    """A new command or flag is a decision: change this list with it."""
    flags = {name: sorted(inspect.signature(command).parameters) for name, command in COMMANDS.items()}
    assert flags == {
        "demo": ["json", "out", "seed"],
        "data prepare": [
            *("column", "grey", "image_size", "json", "kind", "label_column", "layout", "length", "out", "seed"),
            *("source", "test", "valid", "vocabulary", "workers"),
        ],
        "data info": ["examples", "folder", "json"],
        "train": [
            *(
                "batch_size",
                "data",
                "dry_run",
                "json",
                "learned",
                "micro_batch",
                "optimizer",
                "out",
                "rate",
                "save_every",
            ),
            *("schedule", "seed", "steps", "validate_every", "weighting"),
        ],
    }
