"""Text: plain files, one sequence per line, FASTA, JSON lines, CSV and Parquet columns."""

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...files import fail_undecoded
from ...mistakes import fail, first_line
from .. import files
from .source import NOTHING, PART, Part, Piece, Source


@dataclass(frozen=True)
class _Range:
    """A byte range of a file."""

    path: Path
    start: int
    stop: int
    split: str | None = None

    @property
    def weight(self) -> int:
        return self.path.stat().st_size if self.stop < 0 else self.stop - self.start


@dataclass(frozen=True)
class TextPart(_Range):
    """Running text: one document per file, however many parts the file has."""

    last: bool = True
    within: tuple[int, int | None] = (0, None)
    """Where the document begins and ends, if it is not the whole file."""

    def pieces(self) -> Iterator[Piece]:
        blocks = files.read_range(self.path, self.start, self.stop, files.after_space, self.within)
        yield from _running_text(blocks, self.path, ends=self.last)


def _running_text(blocks: Iterable[bytes], path: Path, ends: bool) -> Iterator[Piece]:
    """Consecutive pieces of one document; the last one ends it if `ends`."""
    waiting = b""
    for block in blocks:
        if waiting:
            yield Piece(waiting, ends=False, place=str(path))
        waiting = block
    if waiting:
        yield Piece(waiting, ends=ends, place=str(path))


@dataclass(frozen=True)
class FilesPart:
    """Whole files, one document each."""

    paths: tuple[Path, ...]
    split: str | None = None

    @property
    def weight(self) -> int:
        return sum(path.stat().st_size for path in self.paths)

    def pieces(self) -> Iterator[Piece]:
        for path in self.paths:
            yield from _running_text(files.read_range(path, 0, -1, files.after_space), path, ends=True)


@dataclass(frozen=True)
class LinesPart(_Range):
    """One document per line; empty lines are skipped."""

    def pieces(self) -> Iterator[Piece]:
        for block in files.read_range(self.path, self.start, self.stop, files.after_newline):
            yield from (Piece(line) for line in block.splitlines() if line.strip())


@dataclass(frozen=True)
class FastaPart(_Range):
    """One document per record: the lines below a '>' header, joined."""

    def pieces(self) -> Iterator[Piece]:
        for block in files.read_range(self.path, self.start, self.stop, files.before_record):
            for record in block.split(b"\n>"):
                header, _, body = record.partition(b"\n")
                if not block.startswith(b">"):
                    fail(
                        f"{self.path} is not FASTA",
                        got=f"a file that starts with {header[:20]!r}",
                        allowed="records that start with '>'",
                        do="use --kind text or lines",
                    )
                sequence = b"".join(body.split())
                yield Piece(sequence) if sequence else NOTHING


@dataclass(frozen=True)
class JsonLinesPart(_Range):
    """One document per line, in a field of a JSON object."""

    column: str = "text"
    label: str | None = None

    def pieces(self) -> Iterator[Piece]:
        for block in files.read_range(self.path, self.start, self.stop, files.after_newline):
            for line in block.splitlines():
                if line.strip():
                    record = files.json_object(line, self.path)
                    text = _text(_field(record, self.column, self.path), self.column, self.path)
                    label = _field(record, self.label, self.path) if text and self.label else None
                    yield Piece(text, label) if text else NOTHING


@dataclass(frozen=True)
class CsvPart:
    """One document per row of a CSV file (tabs instead of commas in .tsv). A quoted field may hold newlines."""

    path: Path
    column: str
    label: str | None = None
    split: str | None = None

    @property
    def weight(self) -> int:
        return self.path.stat().st_size

    def pieces(self) -> Iterator[Piece]:
        csv.field_size_limit(1 << 30)
        delimiter = "\t" if files.suffix(self.path) == ".tsv" else ","
        try:
            with files.readable(self.path) as file:
                text = io.TextIOWrapper(file, encoding="utf-8-sig", newline="")
                rows = csv.DictReader(text, delimiter=delimiter, strict=True)
                for row in _whole(rows, self.path):
                    content = _field(row, self.column, self.path)
                    label = (_field(row, self.label, self.path) or None) if content and self.label else None
                    yield Piece(content, label) if content else NOTHING
        except UnicodeDecodeError as error:
            fail_undecoded(self.path, error)


def _whole(rows: "csv.DictReader[str]", path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a table; one with stray quotes or with more fields than the header is named, not cut."""
    start = 1
    try:
        for row in rows:
            if any(row.pop(None, [])):
                got, do = "more fields than the header", "put fields with commas (or tabs) in quotes"
                fail(f"line {start + 1} of {path} is not a row of the table", got=got, allowed="as many", do=do)
            start = rows.line_num
            yield row
    except csv.Error as error:
        do = "close the quote, and write a quote within a field twice"
        what = f"the row that begins in line {start + 1} of {path} cannot be read"
        fail(what, got=first_line(error), allowed="quotes in pairs", do=do)


@dataclass(frozen=True)
class ParquetPart:
    """One document per row of a row group of a Parquet file."""

    path: Path
    group: int
    column: str
    label: str | None = None
    split: str | None = None

    @property
    def weight(self) -> int:
        return int(files.parquet(self.path).metadata.row_group(self.group).total_byte_size)

    def pieces(self) -> Iterator[Piece]:
        columns = [self.column] + ([self.label] if self.label else [])
        file = files.parquet(self.path)
        for name in columns:
            _field(dict.fromkeys(file.schema_arrow.names), name, self.path)
        for batch in file.iter_batches(row_groups=[self.group], columns=columns, batch_size=1024):
            labels = batch.column(1).to_pylist() if self.label else [None] * len(batch)
            for content, label in zip(batch.column(0).to_pylist(), labels, strict=True):
                text = _text(content, self.column, self.path)
                yield Piece(text, label) if text else NOTHING


def _text(content: Any, column: str, path: Path) -> str | None:
    """What a field holds, as text; None if it holds nothing."""
    if content is None or isinstance(content, str):
        return content
    if isinstance(content, int | float):
        return str(content)
    got = type(content).__name__
    fail(
        f"the field {column!r} of {path} holds no text", got=got, allowed="text or numbers", do="name another --column"
    )


def _field(record: dict[str, Any], name: str, path: Path) -> Any:
    if name not in record:
        fail(
            f"{path} has no field {name!r}",
            got=f"a record with {', '.join(map(str, record)) or 'none'}",
            allowed="the field in every record, null where there is nothing",
            do="name another with --column (or --label-column), or add it",
        )
    return record[name]


def text(paths: Sequence[Path], split: str | None = None) -> Source:
    """Plain text files: one file is one running text, many files are one document each."""
    if len(paths) == 1:
        spans = files.ranges(paths[0], PART)
        running = [TextPart(paths[0], *span, split=split, last=span is spans[-1]) for span in spans]
        return Source(running, rows=False, one_document=True)
    parts: list[Part] = []
    together: list[Path] = []
    size = 0
    for path in paths:
        together.append(path)
        size += path.stat().st_size
        if size >= PART or path == paths[-1]:
            parts.append(FilesPart(tuple(together), split))
            together, size = [], 0
    return Source(parts, rows=False)


def lines(paths: Sequence[Path], split: str | None = None) -> Source:
    """One sequence per line."""
    return Source([LinesPart(p, *span, split=split) for p in paths for span in files.ranges(p, PART)], rows=True)


def fasta(paths: Sequence[Path], split: str | None = None) -> Source:
    """FASTA records."""
    return Source([FastaPart(p, *span, split=split) for p in paths for span in files.ranges(p, PART)], rows=True)


def json_lines(paths: Sequence[Path], column: str, label: str | None, split: str | None = None) -> Source:
    """A field of JSON lines."""
    spans = [(p, span) for p in paths for span in files.ranges(p, PART)]
    return Source([JsonLinesPart(p, *span, split, column, label) for p, span in spans], rows=False)


def table(paths: Sequence[Path], column: str, label: str | None, split: str | None = None) -> Source:
    """A column of CSV or TSV files."""
    return Source([CsvPart(p, column, label, split) for p in paths], rows=True)


def parquet(paths: Sequence[Path], column: str, label: str | None, split: str | None = None) -> Source:
    """A column of Parquet files."""
    groups = [(p, g) for p in paths for g in range(files.parquet(p).metadata.num_row_groups)]
    return Source([ParquetPart(p, g, column, label, split) for p, g in groups], rows=False)
