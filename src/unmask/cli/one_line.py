"""tyro explains a bad command line in a box of several lines; here it becomes one."""

import contextlib
import io
import re
from collections.abc import Iterator


@contextlib.contextmanager
def one_line() -> Iterator[None]:
    """Within the block, a complaint of tyro's becomes a ValueError of one line; --help still prints and exits."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            yield
    except SystemExit as stop:
        if stop.code == 0:  # --help
            raise
        raise ValueError(_unboxed(said.getvalue())) from None


def _unboxed(text: str) -> str:
    """The sections of a box on one line, its title, rules and closing hint left out; in our words if we have some."""
    sections = [""]
    for line in text.splitlines():
        line = line.strip("│| ")
        if line.startswith(("╭", "╰", "─", "--------")):  # the last: where the output has no such symbols
            sections.append("")
        else:
            sections[-1] += f" {line}"
    said = (re.sub(r"\s+", " ", section).strip() for section in sections)
    whole = "; ".join([part for part in said if part and not part.startswith("For full helptext")])
    for pattern, words in _KNOWN.items():
        if found := re.search(pattern, whole):
            parts = found.groupdict()
            return words.format(**parts | ({"allowed": _listed(parts["allowed"])} if "allowed" in parts else {}))
    return f"{whole}; see unmask --help"


def _listed(words: str) -> str:
    """Quoted words in order, without the one that no user needs; other words as they are."""
    quoted = re.findall(r"'([^']*)'", words)
    return ", ".join(sorted({word for word in quoted if word != "None"})) if quoted else words


_KNOWN = {
    r"Error parsing (?P<flag>[^:]+):.*invalid literal for int\(\) with base 10: (?P<got>'.*?')": (
        "{flag} is not a whole number: got {got}, allowed: a whole number; for example 8"
    ),
    r"Error parsing (?P<flag>[^:]+):.*could not convert string to float: (?P<got>'.*?')": (
        "{flag} is not a number: got {got}, allowed: a number; for example 0.5"
    ),
    r"Error parsing (?P<flag>[^:]+): Could not find valid parse for arguments: \[(?P<got>.*?)\]": (
        "{flag} cannot be that: got {got}, allowed: what unmask --help says of it; change it"
    ),
    r"Missing from [^:]+: (?P<flag>[^\s\[]+)": "{flag} is missing: got none, allowed: one; see unmask --help",
    r"invalid choice (?P<got>'.*?') for argument '(?P<flag>.*?)'\. Expected one of \((?P<allowed>.*?),?\)": (
        "{flag} is none of what is known: got {got}, allowed: {allowed}; name one of them"
    ),
    r"Missing value for argument '(?P<flag>.*?)'": (
        "{flag} has no value: got nothing after it, allowed: a value; see unmask --help"
    ),
    r"Unrecognized options: (?P<got>[^;]*); Available subcommands: (?P<allowed>[^;]*)": (
        "unknown command: got {got}, allowed: {allowed}; see unmask --help"
    ),
    r"Unrecognized options: (?P<got>[^;]*); Perhaps you meant: (?P<near>--[\w-]+)": (
        "unknown words: got {got}, allowed: what unmask --help lists; did you mean {near}?"
    ),
    r"Unrecognized options: (?P<got>[^;]*)": (
        "unknown words: got {got}, allowed: what unmask --help lists; leave them out"
    ),
}
"""What tyro says, and what we say."""
