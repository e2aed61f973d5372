"""Output that every terminal can show: without UTF-8, without colours, or closed early."""

import codecs
import io
import os
import sys

PLAIN = {
    **dict.fromkeys("─━═╌", "-"),
    **dict.fromkeys("│┃║", "|"),
    **dict.fromkeys("╭╮╰╯┌┐└┘├┤┬┴┼", "+"),
    **dict.fromkeys("▁▂▃▄▅▆▇█▀", "#"),
    **dict.fromkeys("–—−", "-"),
    **dict.fromkeys("‘’′", "'"),
    **dict.fromkeys("“”", '"'),
    **dict.fromkeys("·•", "."),
    "±": "+-",
    "×": "x",
    "…": "...",
    "→": "->",
    "↔": "<->",
    "≤": "<=",
    "≥": ">=",
    "∝": "~",
    "α": "alpha",
    "β": "beta",
    "ε": "epsilon",
    "η": "eta",
    "λ": "lambda",
    "μ": "mu",
    "ρ": "rho",
}
"""Replacements for symbols that cannot be shown; all others become question marks."""
_HANDLER = "unmask.plain"
CLOSED = 141
"""Exit code when the reader of a pipe has gone, as for a program that SIGPIPE ends."""


def make_safe() -> None:
    """Replace symbols that a stream cannot encode, so that printing never fails."""
    codecs.register_error(_HANDLER, _spelled)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_HANDLER)


def _spelled(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(PLAIN.get(symbol, "?") for symbol in error.object[error.start : error.end]), error.end


def complain(message: str) -> int:
    """Print an error, in red where colours are available; returns the exit code."""
    colour = sys.stderr.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    print(f"\033[31m{message}\033[0m" if colour else message, file=sys.stderr)
    return 2


def leave_quietly() -> int:
    """The reader has gone: discard what is still to be written."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return CLOSED
