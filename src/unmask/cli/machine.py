"""Output for other programs: one line of standard JSON."""

import json
from typing import Any

from unmask.files import standard


def print_json(document: Any) -> None:
    """Print a document, with null for NaN and infinity."""
    print(json.dumps(standard(document), ensure_ascii=False, allow_nan=False), flush=True)
