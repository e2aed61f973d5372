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
    """The sections of a box on one line, its title, rules and closing hint left out."""
    sections = [""]
    for line in text.splitlines():
        line = line.strip("│| ")
        if line.startswith(("╭", "╰", "─", "--------")):  # the last: where the output has no such symbols
            sections.append("")
        else:
            sections[-1] += f" {line}"
    said = (re.sub(r"\s+", " ", section).strip() for section in sections)
    return "; ".join(
        [part for part in said if part and not part.startswith("For full helptext")] + ["see unmask --help"]
    )
