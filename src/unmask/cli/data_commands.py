"""The commands for data: data prepare, data info."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from .flags import optional


@dataclass(frozen=True)
class Prepare:
    """Turn any discrete data into token shards.

    It reads text, tables, FASTA, lines, arrays, images and known data sets. If interrupted, run the same command again
    to resume. Examples:
      unmask data prepare book.txt --out data/book
      unmask data prepare molecules.csv --column SMILES --out data/molecules
      unmask data prepare text8 --out data/text8
    """

    source: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="SOURCE")]
    """A path, a folder, a pattern, hub:ID, text8, mnist, cifar10, moses, shakespeare, openwebtext or fineweb-edu."""
    out: Annotated[Path, tyro.conf.arg(metavar="DIR")]
    """New folder for the prepared data."""
    kind: Annotated[str | None, optional("NAME")] = None
    """text, lines, fasta, jsonl, csv, parquet, array, images, mnist, cifar10, imagenet64 or text8. Default: guessed."""
    column: Annotated[str | None, optional("NAME")] = None
    """Field, column or array that holds the data."""
    label_column: Annotated[str | None, optional("NAME")] = None
    """Field, column or array that holds the class label."""
    vocabulary: Annotated[str | None, optional("NAME")] = None
    """characters, alphabet:SYMBOLS, bytes, pixels, integers:SIZE, gpt2, bpe:SIZE, a tokenizer.json, or a model's."""
    length: Annotated[int | None, optional("N")] = None
    """Tokens per row; longer documents do not become rows. Default: the longest document, or 256 for packed text."""
    layout: Annotated[Literal["packed", "rows"] | None, optional("{packed,rows}")] = None
    """packed joins documents end to end, rows has one per row. Default: depends on the source."""
    valid: Annotated[float | None, optional("SHARE")] = None
    """Share held out for validation. Default: 0.05, or none if the source has its own splits."""
    test: Annotated[float | None, optional("SHARE")] = None
    """Share held out for testing. Default: 0.05, or none if the source has its own splits."""
    image_size: Annotated[int | None, optional("SIDE")] = None
    """Crop images to squares and resize them to this side length."""
    grey: bool = False
    """Read images in greyscale."""
    seed: int = 0
    """Seed that decides which documents are held out."""
    workers: Annotated[int | None, optional("N")] = None
    """Number of processes; the result does not depend on it. Default: all cores."""
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
    """Folder made by unmask data prepare."""
    examples: int = 3
    """Number of rows to show."""
    json: bool = False
    """Print the manifest as JSON and nothing else."""

    def run(self) -> None:
        from . import data

        data.show_info(self.folder, self.examples, self.json)
