"""`unmask baselines`: the list of methods."""

from rich.console import Console
from rich.table import Table

from unmask.baselines import BASELINES

from .machine import print_json

_COLUMNS = ("differs", "reference", "bound", "cost")


def run(as_json: bool) -> int:
    """Print the list."""
    rows = [{"name": name} | {c: getattr(b, c) for c in _COLUMNS} for name, b in BASELINES.items()]
    if as_json:
        print_json(rows)
        return 0
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in ("--method", "what differs from MD4", "reference", "bound?", "cost"):
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*row.values())
    Console().print(table)
    return 0
