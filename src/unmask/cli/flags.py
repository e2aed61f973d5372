"""How flags look in the help."""

from typing import Annotated, Any

import tyro


def optional(metavar: str, *aliases: str) -> Any:
    """An option that may be left out: its help states the default, so tyro need not add "(default: None)"."""
    return tyro.conf.arg(metavar=metavar, help_behavior_hint="", aliases=list(aliases) or None)


MODEL = Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="MODEL")]
"""Folder of a run or of an exported model, hub:OWNER/NAME, or the name of a shipped model."""
