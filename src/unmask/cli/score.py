"""`unmask score`: per-token surprise as a heat map, in the terminal or on an HTML page."""

import html
import os
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from unmask.files import atomic_write, check_files, read_text
from unmask.run import load
from unmask.run.scored import Scored, scored

from .machine import print_json, standard_input

_HOT = 8.0
"""Bits at which the colour is strongest."""


def run(name: str, text: str, how: dict[str, Any], page: Path | None, as_json: bool) -> int:
    """Score a text, or the text of a file; `how`: the arguments of `scored`."""
    check_files(page)
    model = load(name)
    content = _content(text)
    found = scored(model, content, **how)
    total, hottest = found.total, sorted(found.spans, key=lambda span: -span[1])[:5]
    if page is not None:
        with atomic_write(page, "w") as file:
            file.write(heat_page(found))
    if as_json:
        print_json(found.document())
        return 0
    console = Console()
    console.print(heat(found, console.is_terminal))
    console.print(
        f"{total:.1f} ± {found.error:.1f} bits, {total / len(found.bits):.3f} per token; most surprising: "
        + ", ".join(f"{piece!r} {value:.1f}" for piece, value in hottest),
        highlight=False,
    )
    return 0


def _content(text: str) -> str:
    """The text of the file with this name, of the standard input for "-", or the argument itself.

    A note is printed if it looks like a file name.
    """
    if text == "-":
        return standard_input()
    if os.path.isfile(text):  # pathlib fails on a text too long for a file name
        return read_text(Path(text))
    if not text.split()[1:] and (Path(text).suffix[1:].isalpha() or "/" in text):
        print(f"there is no file {text}: scoring the argument itself as text", file=sys.stderr)
    return text


def heat(found: Scored, colours: bool) -> Text:
    """The text; the background of each token shows how surprising it is, where colours can be shown."""
    shown = Text()
    for piece, value in found.spans:
        shown.append(piece, style=f"on rgb({','.join(map(str, colour(value)))})" if colours else "")
    return shown


def colour(value: float) -> tuple[int, int, int]:
    """A colour from dark, for a certain token, to red, for a surprising one."""
    share = max(0.0, min(1.0, value / _HOT))
    return round(40 + 160 * share), round(40 + 10 * share), round(48 + 10 * share)


def heat_page(found: Scored) -> str:
    """A page without scripts: every token is a span with its bits as the tooltip."""
    spans = "".join(
        f'<span style="background:rgba(220,50,40,{max(0.0, min(1.0, v / _HOT)):.2f})" title="{v:.2f} bits">'
        f"{html.escape(p)}</span>"
        for p, v in found.spans
    )
    mean = found.total / len(found.bits)
    return (
        '<!doctype html><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        "<title>surprise</title><style>:root{color-scheme:light dark}body{font:1.1rem/1.7 monospace;max-width:60rem;"
        f"margin:2rem auto;padding:0 1rem;white-space:pre-wrap}}</style><p>{spans}</p>"
        f"<p>{found.total:.1f} bits, {mean:.3f} per token; hover over a token for its own</p>\n"
    )
