"""The commands for data: data prepare, data info."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from .flags import optional


@dataclass(frozen=True)
class Prepare:
    """Turn any discrete data into token shards.

    Text, tables, FASTA, lines, arrays, images, known data sets; what is stopped or killed goes on by the same
    command. Examples:
      unmask data prepare book.txt --out data/book
      unmask data prepare molecules.csv --column SMILES --out data/molecules
      unmask data prepare text8 --out data/text8
    """

    source: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="SOURCE")]
    """A path, a folder, a pattern, hub:ID, or text8, mnist, cifar10, moses, shakespeare, openwebtext,
    fineweb-edu."""
    out: Annotated[Path, tyro.conf.arg(metavar="DIR")]
    """A new folder for the prepared data."""
    kind: Annotated[str | None, optional("NAME")] = None
    """text, lines, fasta, jsonl, csv, parquet, array, images, mnist, cifar10, imagenet64 or text8; else guessed."""
    column: Annotated[str | None, optional("NAME")] = None
    """The field, column or array that holds the data."""
    label_column: Annotated[str | None, optional("NAME")] = None
    """The field, column or array that holds the class."""
    vocabulary: Annotated[str | None, optional("NAME")] = None
    """characters, alphabet:SYMBOLS, bytes, pixels, integers:SIZE, gpt2, bpe:SIZE, a tokenizer.json, or a model's."""
    length: Annotated[int | None, optional("N")] = None
    """Tokens per row; longer documents are left out of rows. Default: the longest, or 256 for packed text."""
    layout: Annotated[Literal["packed", "rows"] | None, optional("{packed,rows}")] = None
    """Documents packed end to end, or one per row; the source decides if left out."""
    valid: Annotated[float | None, optional("SHARE")] = None
    """Share held out for validation. Default: 0.05, or none where the source has splits of its own."""
    test: Annotated[float | None, optional("SHARE")] = None
    """Share held out for testing. Default: 0.05, or none where the source has splits of its own."""
    image_size: Annotated[int | None, optional("SIDE")] = None
    """Crop images to a square and resize them to this side."""
    grey: bool = False
    """Read images without colour."""
    seed: int = 0
    """Decides which documents are held out."""
    workers: Annotated[int | None, optional("N")] = None
    """Processes; all cores if left out. The result does not depend on it."""
    json: bool = False
    """Print the manifest as JSON and nothing else."""

    def run(self) -> None:
        from unmask.data import Plan, Reading

        from . import data

        vocabulary = data.vocabulary_of(self.vocabulary)
        reading = Reading(self.column, self.label_column, self.image_size, self.grey)
        plan = Plan(
            self.source,
            self.kind,
            reading,
            vocabulary,
            self.length,
            None if self.layout is None else self.layout == "rows",
            self.valid,
            self.test,
            self.seed,
        )
        data.run_prepare(plan, self.out, self.workers, self.json)


@dataclass(frozen=True)
class DataInfo:
    """Show what a folder of prepared data holds.

    Example: unmask data info data/book
    """

    folder: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="DIR")]
    """A folder made by unmask data prepare."""
    examples: int = 3
    """How many rows to show."""
    json: bool = False
    """Print the manifest as JSON and nothing else."""

    def run(self) -> None:
        from . import data

        data.show_info(self.folder, self.examples, self.json)
