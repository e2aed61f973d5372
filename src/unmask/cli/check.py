"""`unmask check`: how many samples of a file are valid, unique and novel."""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from unmask.data import Dataset
from unmask.evaluation import Checker, Share, find_checker, forms, validity
from unmask.run.check import read_samples, texts_of

from .machine import print_json
from .progress import bar

_SHOWN = 3
"""Number of invalid samples to show."""


def run(path: Path, name: str, data: Path | None, as_json: bool) -> int:
    """Check the samples; without data, novelty is not measured."""
    checker, samples = find_checker(name), read_samples(path)
    dataset = None if data is None else Dataset(data)
    console = Console(quiet=as_json)
    known = set() if dataset is None else _forms(dataset, checker, console)
    found = validity(samples, checker, known)
    shares = {"valid": found.valid, "unique": found.unique}
    shares |= {} if dataset is None else {"novel": found.novel}
    shares = {name: share for name, share in shares.items() if share.of}  # the rest is undefined without valid samples
    if as_json:
        print_json({name: asdict(share) | {"error": share.error} for name, share in shares.items()})
        return 0
    console.print(_table(shares), highlight=False)
    wrong = [sample for sample in samples if checker(sample) is None][:_SHOWN]
    if wrong:
        console.print("not valid, for example: " + ", ".join(map(repr, wrong)), markup=False, highlight=False)
    return 0


def _forms(dataset: Dataset, checker: Checker, console: Console) -> set[str]:
    """The forms of the training data, which may be long."""
    split = dataset.split("train")
    with bar(console, "training data") as progress:

        def counted() -> Iterator[str]:
            for number, text in enumerate(texts_of(split, dataset.vocabulary), start=1):
                progress(number, len(split))
                yield text

        return set(forms(counted(), checker))


def _table(shares: dict[str, Share]) -> Table:
    """One row per share; each is a share of what the row above counts."""
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    names = iter(("samples", "valid ones", "unique ones"))
    for name, share in shares.items():
        table.add_row(name, f"{share.value:.2%} ± {share.error:.2%}", f"of {share.of:,} {next(names)}")
    return table
