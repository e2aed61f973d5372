"""tyro reports a bad command line in a box of several lines; here the report becomes one line."""

import contextlib
import io
import re
from collections.abc import Iterator


@contextlib.contextmanager
def one_line() -> Iterator[None]:
    """Within the block, an error of tyro becomes a ValueError of one line; --help still prints and exits."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            yield
    except SystemExit as stop:
        if stop.code == 0:  # --help
            raise
        raise ValueError(_unboxed(said.getvalue())) from None


def _unboxed(text: str) -> str:
    """The sections of a box on one line, without title, rules and closing hint; in our words for known errors."""
    sections = [""]
    for line in text.splitlines():
        line = line.strip("│| ")
        if line.startswith(("╭", "╰", "─", "--------")):  # the last: without Unicode output
            sections.append("")
        else:
            sections[-1] += f" {line}"
    said = (re.sub(r"\s+", " ", section).strip() for section in sections)
    whole = "; ".join([part for part in said if part and not part.startswith("For full helptext")])
    whole = re.sub(r" \(applied to unmask[^)]*\)", "", whole)
    for pattern, words in _KNOWN.items():
        if found := re.search(pattern, whole):
            parts = found.groupdict()
            return words.format(**parts | ({"allowed": _listed(parts["allowed"])} if "allowed" in parts else {}))
    return f"{whole}; see unmask --help"


def _listed(words: str) -> str:
    """Quoted words, sorted and without None; other words as they are."""
    quoted = re.findall(r"'([^']*)'", words)
    return ", ".join(sorted({word for word in quoted if word != "None"})) if quoted else words


_KNOWN = {
    r"Error parsing (?P<flag>[^:]+):.*invalid literal for int\(\) with base 10: (?P<got>'.*?')": (
        "{flag} is not an integer: got {got}, allowed: an integer; use 8, for example"
    ),
    r"Error parsing (?P<flag>[^:]+):.*could not convert string to float: (?P<got>'.*?')": (
        "{flag} is not a number: got {got}, allowed: a number; use 0.5, for example"
    ),
    r"Error parsing [a-z_.]+: (?P<said>[^:]+: got .*)": "{said}",
    r"Error parsing (?P<flag>[^:]+): Could not find valid parse for arguments: \[(?P<got>.*?)\]": (
        "{flag} has an invalid value: got {got}, allowed: a value as its help describes; see unmask COMMAND --help"
    ),
    r"Missing from [^:]+: (?P<flag>[^\s\[]+)": "{flag} is missing: got none, allowed: one; see unmask COMMAND --help",
    r"invalid choice (?P<got>'.*?') for argument '(?P<flag>.*?)'\. Expected one of \((?P<allowed>.*?),?\)": (
        "{flag} has an unknown value: got {got}, allowed: {allowed}; choose one of them"
    ),
    r"Missing value for argument '(?P<flag>.*?)'": (
        "{flag} has no value: got nothing after it, allowed: a value; see unmask COMMAND --help"
    ),
    r"misplaced options: (?P<got>.*?)(?: Arguments are applied|;|$)": (
        "unknown arguments, or in the wrong place: got {got}, allowed: what unmask COMMAND --help lists; "
        "leave them out, or move them behind COMMAND"
    ),
    r"Unrecognized options: (?P<got>[^;]*); Available subcommands: (?P<allowed>[^;]*)": (
        "unknown command: got {got}, allowed: {allowed}; see unmask --help"
    ),
    r"Unrecognized options: (?P<got>[^;]*); Perhaps you meant: (?P<near>--[\w-]+)": (
        "unknown arguments: got {got}, allowed: what unmask COMMAND --help lists; did you mean {near}?"
    ),
    r"Unrecognized options: (?P<got>[^;]*)": (
        "unknown arguments: got {got}, allowed: what unmask COMMAND --help lists; leave them out"
    ),
}
"""Patterns of tyro's errors, and the message for each."""
