"""What `unmask --help` shows: the commands under headings, one line each."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

WIDTH = 80
"""Columns that every terminal has."""
_HEAD = "Masked diffusion models on any discrete data: exact, fast, in one command."
_TAIL = """\
unmask COMMAND --help shows the options of a command, with examples.
unmask --use my_parts.py COMMAND … also loads your own samplers, networks …"""


def contents(groups: Mapping[str, Mapping[str, Callable[..., Any]]], shown: Collection[str]) -> str:
    """The table of contents: the first docstring line of each command to be shown."""
    lines = [_HEAD]
    for heading, commands in groups.items():
        rows = [f"  {name:14}{summary(command)}" for name, command in commands.items() if name in shown]
        lines += ["", heading, *rows] if rows else []
    return "\n".join([*lines, "", _TAIL])


def summary(command: Callable[..., Any]) -> str:
    """What a command does, in one line."""
    return (command.__doc__ or "").splitlines()[0]
