"""Output that every terminal can show: without UTF-8, without colours, closed half-way."""

import codecs
import io
import math
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
"""What stands for a symbol where it cannot be shown; others become question marks."""
_HANDLER = "unmask.plain"
CLOSED = 141
"""The exit code where the reader of a pipe has gone, as of a program that the signal ends."""


def make_safe() -> None:
    """From now on nothing that is printed can fail for want of a symbol."""
    codecs.register_error(_HANDLER, _spelled)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_HANDLER)


def _spelled(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(PLAIN.get(symbol, "?") for symbol in error.object[error.start : error.end]), error.end


def decimal(value: float | None, digits: int) -> str:
    """A number with so many digits; a dash where there is none, as for the error of a single sequence."""
    return "–" if value is None or not math.isfinite(value) else f"{value:.{digits}f}"


def complain(message: str) -> int:
    """A mistake, in red where there are colours; returns the exit code."""
    colour = sys.stderr.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    print(f"\033[31m{message}\033[0m" if colour else message, file=sys.stderr)
    return 2


def leave_quietly() -> int:
    """Nobody reads any more: what is still to be written goes nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return CLOSED
