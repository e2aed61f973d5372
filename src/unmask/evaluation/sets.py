"""Zero-shot sets by name: where they are, what their records hold, and the detokeniser of published results.

A set comes from a user's file or from the hub, with the same rows. A line of a text file is therefore treated as in the
hub's copy: Wikitext keeps its spaces and line ends and has empty rows, the others are stripped.

The splits are those of published results: validation, or test where there is no other (lambada, lm1b, ag_news). AG News
is left as it is, and papers get Wikitext's rules followed by LM1B's, as in mdlm, which added these sets.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..data.files import json_lines, parquet, suffix, text_lines
from ..files import digest
from ..mistakes import extra, fail, first_line, require

Record = Mapping[str, Any]
_EXPORT = "refs/convert/parquet"
"""Where the hub keeps its own Parquet copy of a set."""
ENDINGS = (".txt", ".txt.gz", ".txt.xz", ".jsonl", ".jsonl.gz", ".jsonl.xz", ".parquet")
"""What may follow a set's name in the name of its file; the first file found is read."""


def _column(name: str) -> Callable[[Record], str]:
    def read(record: Record) -> str:
        if name not in record:
            got = ", ".join(map(str, record)) or "none"
            fail(f"a record has no field {name!r}", got=got, allowed=f"one named {name}", do="rename it")
        return str(record[name])

    return read


def _as_it_is(line: str) -> str:
    return line


def _kept_unless_blank(line: str) -> str:
    return line if line.strip() else ""


@dataclass(frozen=True)
class Form:
    """How a record, or a line of a text file, becomes a row of text."""

    row: Callable[[Record], str] = field(default_factory=lambda: _column("text"))
    line: Callable[[str], str] = str.strip


@dataclass(frozen=True)
class TextSet:
    """A set on the hub, its rows, and the detokeniser that published results use."""

    hub: str
    configuration: str
    split: str
    form: Form = field(default_factory=Form)
    detokeniser: str = "none"
    exported: bool = False
    """Whether only the hub's Parquet copy can be read, since the set itself is a script."""

    def location(self) -> dict[str, Any]:
        """The arguments of `load_dataset` after the hub's name."""
        if not self.exported:
            return {"name": self.configuration, "split": self.split}
        files = {self.split: f"{self.configuration}/{self.split}/*.parquet"}
        return {"data_files": files, "revision": _EXPORT, "split": self.split}


def _wikitext(configuration: str) -> TextSet:
    form = Form(line=_kept_unless_blank)
    return TextSet("Salesforce/wikitext", configuration, "validation", form, "wikitext")


def _papers(configuration: str) -> TextSet:
    form = Form(_column("article"))
    return TextSet("armanc/scientific_papers", configuration, "validation", form, "papers", exported=True)


SETS: dict[str, TextSet] = {
    "lambada": TextSet("EleutherAI/lambada_openai", "default", "test", detokeniser="lambada"),
    "wikitext2": _wikitext("wikitext-2-raw-v1"),
    "ptb": TextSet(
        "ptb-text-only/ptb_text_only", "penn_treebank", "validation", Form(_column("sentence")), "ptb", exported=True
    ),
    "wikitext103": _wikitext("wikitext-103-raw-v1"),
    "lm1b": TextSet("dvruette/lm1b", "default", "test", detokeniser="lm1b"),
    "ag_news": TextSet("fancyzhx/ag_news", "default", "test"),
    "arxiv": _papers("arxiv"),
    "pubmed": _papers("pubmed"),
}
"""Sets by name."""


# ---------------------------------------------------------------------------------- where rows come from


@dataclass(frozen=True)
class TextFile:
    """Rows from a file: lines, JSON lines or Parquet, by its suffix."""

    name: str
    path: Path
    form: Form = field(default_factory=lambda: Form(line=_as_it_is))
    detokeniser: str = "none"

    def origin(self) -> dict[str, str]:
        """What determines the rows."""
        return {"file": self.path.name, "blake2b": digest(self.path, "blake2b")}

    def rows(self) -> Iterator[str]:
        """The rows, one by one."""
        return _READERS.get(suffix(self.path), _lines)(self.path, self.form)


@dataclass(frozen=True)
class HubText:
    """Rows from the hub, fetched on first use."""

    name: str
    place: TextSet

    @property
    def detokeniser(self) -> str:
        return self.place.detokeniser

    def origin(self) -> dict[str, str]:
        """What determines the rows."""
        return {"hub": self.place.hub, "configuration": self.place.configuration, "split": self.place.split}

    def rows(self) -> Iterator[str]:
        """The rows, one by one."""
        return map(self.place.form.row, self._records())

    def _records(self) -> Any:
        datasets = extra("datasets", "hub", f"the set {self.name}, without a file of it in --sets DIR,")
        try:
            return datasets.load_dataset(self.place.hub, streaming=False, **self.place.location())
        except Exception as error:  # the hub client raises many kinds, all meaning "not there or no network"
            fail(
                f"the set {self.name} could not be fetched from the hub",
                got=first_line(error),
                allowed=f"a connection to {self.place.hub}",
                do=f"download its {self.place.split} split to DIR/{self.name}.jsonl or .parquet and pass --sets DIR",
            )


Text = TextFile | HubText
"""A name, a detokeniser, an origin and rows."""


def find_text(where: str, folder: Path | None = None) -> Text:
    """The set with that name, from the folder if it is there, else from the hub; or the file at that path."""
    good = folder is None or folder.is_dir()
    require(good, "no such folder of sets", got=folder, allowed="an existing folder", do="check the path of --sets")
    if where in SETS:
        place, path = SETS[where], _file_in(folder, where)
        return HubText(where, place) if path is None else TextFile(where, path, place.form, place.detokeniser)
    if not Path(where).is_file():
        allowed = f"a file, all, or one of {', '.join(SETS)}"
        fail("no such text", got=where, allowed=allowed, do="check the spelling")
    return TextFile(Path(where).name, Path(where))


def _file_in(folder: Path | None, name: str) -> Path | None:
    found = [] if folder is None else [folder / f"{name}{ending}" for ending in ENDINGS]
    return next((path for path in found if path.is_file()), None)


# ------------------------------------------------------------------------------------------ kinds of file


def _lines(path: Path, form: Form) -> Iterator[str]:
    return map(form.line, text_lines(path))


def _json_lines(path: Path, form: Form) -> Iterator[str]:
    return (form.row(record) for _, record in json_lines(path))


def _parquet(path: Path, form: Form) -> Iterator[str]:
    for batch in parquet(path).iter_batches():
        yield from map(form.row, batch.to_pylist())


_READERS: dict[str, Callable[[Path, Form], Iterator[str]]] = {".jsonl": _json_lines, ".parquet": _parquet}
