"""What a program reads from us: one line of standard JSON."""

import json
from typing import Any

from unmask.files import standard


def print_json(document: Any) -> None:
    """A document, null where a number in it is none."""
    print(json.dumps(standard(document), ensure_ascii=False, allow_nan=False), flush=True)
