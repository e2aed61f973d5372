"""Help: the commands under headings, one line each, and paragraphs that fit the terminal."""

import contextlib
import io
import shutil
import sys
import textwrap
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, TextIO

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


@contextlib.contextmanager
def wrapped() -> Iterator[None]:
    """Within the block, the paragraphs of a help page are wrapped to the terminal; tyro wraps only the options."""
    out = sys.stdout
    page = _Page(out)
    try:
        with contextlib.redirect_stdout(page):
            yield
    finally:
        width = shutil.get_terminal_size().columns
        lines = page.getvalue().splitlines()
        out.write("".join(f"{line if line.startswith(_LAID_OUT) else textwrap.fill(line, width)}\n" for line in lines))


_LAID_OUT = (" ", "\x1b", "│", "╭", "╰", "-")
"""First characters of lines that are laid out already: examples, colours, boxes."""


class _Page(io.StringIO):
    """Text that is held back; colours and symbols are those of the stream that it is meant for."""

    def __init__(self, out: TextIO):
        super().__init__()
        self._out = out

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._out.encoding

    def isatty(self) -> bool:
        return self._out.isatty()
