"""`unmask eval --text`: one text, or all available sets."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from unmask.evaluation import SETS, find_text
from unmask.evaluation.intervals import interval
from unmask.evaluation.sets import Text
from unmask.mistakes import require, said
from unmask.run import find_model
from unmask.run.evaluate import Evaluation
from unmask.run.zero_shot import ZeroShot, ZeroShots

from .machine import print_json
from .progress import bar

Found = dict[str, Any]
EVERY = "all"
"""The value of --text that stands for all sets."""


def run(
    model: str, text: str, sets: Path | None, protocol: str, detokeniser: str | None, how: Evaluation, as_json: bool
) -> int:
    """Measure the named text or all sets."""
    console = Console(quiet=as_json)
    suite = ZeroShots(find_model(model), how)

    def measured(one: Text) -> tuple[Path, Found]:
        with bar(console, one.name) as progress:
            return suite.measure(ZeroShot(one, protocol, detokeniser), progress)

    if text == EVERY:
        return _run_all([find_text(name, sets) for name in SETS], measured, console)
    path, found = measured(find_text(text, sets))
    _say(console, _sentence(found), f"saved in {path}")
    _print_json(found, console)
    return 0


def _run_all(texts: Sequence[Text], measured: Callable[[Text], tuple[Path, Found]], console: Console) -> int:
    """Measure each on its own: one that is unavailable does not stop the others."""
    figures: list[Found] = []
    missing: dict[str, str] = {}
    for one in texts:
        try:
            figures.append(measured(one)[1])
        except (ValueError, OSError) as mistake:
            missing[one.name] = said(mistake)
    _print_json({"sets": figures, "missing": missing}, console)
    _say(console, *(f"{name}: {why}" for name, why in missing.items()))
    do = "name a folder with their files by --sets"
    require(bool(figures), "no set could be measured", got=", ".join(missing), allowed="at least one", do=do)
    console.print(_table(figures))
    _say(console, f"{len(figures)} of {len(texts)} sets, protocol {figures[0]['protocol']}; saved in evals")
    return 0


def _print_json(document: Found, console: Console) -> None:
    """Print JSON if the console is quiet."""
    if console.quiet:
        print_json(document)


def _say(console: Console, *lines: str) -> None:
    for line in lines:
        console.print(line, highlight=False, soft_wrap=True, markup=False)


def _sentence(found: Found) -> str:
    value = found["perplexity"]
    ends = interval(value["low"], value["high"], 2)
    return (
        f"{found['set']}: perplexity {value['value']:.2f} ({ends}) per token, protocol "
        f"{found['protocol']}, detokeniser {found['detokeniser']}; {found['sequences']:,} sequences, "
        f"{found['tokens']:,} tokens"
    )


def _table(figures: Sequence[Found]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for column in ("set", "perplexity", "95 %", "tokens", "detokeniser", "from"):
        table.add_column(column, justify="right" if column in ("perplexity", "95 %", "tokens") else "left")
    for found in figures:
        value = found["perplexity"]
        table.add_row(
            found["set"],
            f"{value['value']:.2f}",
            interval(value["low"], value["high"], 2),
            f"{found['tokens']:,}",
            found["detokeniser"],
            found.get("file") or found["hub"],
        )
    return table
