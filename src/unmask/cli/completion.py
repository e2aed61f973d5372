"""`unmask completion`: the script of tyro, for commands of one word and of two."""

import contextlib
import io
from collections.abc import Callable, Mapping
from dataclasses import make_dataclass
from typing import Annotated, Any, Union

import tyro

from .help_text import summary
from .machine import print_json
from .main import COMMANDS


def run(shell: str, as_json: bool) -> int:
    """Print the script."""
    text = script(shell)
    if as_json:
        print_json({"shell": shell, "script": text})
    else:
        print(text)
    return 0


def script(shell: str) -> str:
    """The completion script that tyro generates for a shell."""
    said = io.StringIO()
    style = (tyro.conf.FlagCreatePairsOff, tyro.conf.OmitSubcommandPrefixes)
    with contextlib.redirect_stdout(said), contextlib.suppress(SystemExit):
        tyro.cli(_one_of(_tree()), prog="unmask", args=["--tyro-print-completion", shell], config=style)
    return said.getvalue()


def _tree() -> dict[str, Callable[..., Any]]:
    """Commands by their first word; commands of two words are nested below it."""
    nested: dict[str, dict[str, Callable[..., Any]]] = {}
    for name, command in COMMANDS.items():
        first, _, second = name.partition(" ")
        nested.setdefault(first, {})[second] = command
    return {first: below[""] if "" in below else _group(first, below) for first, below in nested.items()}


def _group(name: str, below: Mapping[str, Callable[..., Any]]) -> Callable[..., Any]:
    group = make_dataclass(name, [("command", _one_of(below))])
    group.__doc__ = ", ".join(below)
    return group


def _one_of(commands: Mapping[str, Callable[..., Any]]) -> Any:
    named = [
        Annotated[command, tyro.conf.subcommand(name, description=summary(command))]
        for name, command in commands.items()
    ]
    return Union[tuple(named)]  # noqa: UP007
