"""Input from other programs, and output for them: one line of standard JSON."""

import json
import sys
from typing import Any

from unmask.files import fail_undecoded, standard


def print_json(document: Any) -> None:
    """Print a document, with null for NaN and infinity."""
    print(json.dumps(standard(document), ensure_ascii=False, allow_nan=False), flush=True)


def standard_input() -> str:
    """The text of the standard input in UTF-8, without the end of its last line."""
    try:
        return sys.stdin.buffer.read().decode("utf-8").removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError as error:
        fail_undecoded("the standard input", error)
