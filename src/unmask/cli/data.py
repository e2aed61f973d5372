"""`unmask data prepare` and `unmask data info`: what they print."""

import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn, TransferSpeedColumn
from rich.table import Table

from unmask.data import Dataset, Plan, Split, prepare
from unmask.mistakes import require
from unmask.run import find_model
from unmask.run.folder import CONFIG, VOCABULARY
from unmask.run.hub import PREFIX
from unmask.run.places import shipped
from unmask.run.previews import is_picture
from unmask.run.train import held_out

from .machine import print_json
from .progress import bar, keeping

_BLOCKS = " ▁▂▃▄▅▆▇█"


def vocabulary_of(name: str | None) -> str | None:
    """The vocabulary file of a model if a model is named, else the name itself."""
    if name is None:
        return None
    folder = os.path.isfile(os.path.join(name, CONFIG))  # pathlib fails on an alphabet too long for a file name
    if not (name in shipped() or name.startswith(PREFIX) or folder):
        return name
    return str(find_model(name).folder / VOCABULARY)


def run_prepare(plan: Plan, out: Path, workers: int | None, as_json: bool) -> None:
    """Prepare with a progress bar; show the result, or how to resume if stopped."""
    good = workers is None or workers >= 1
    require(good, "workers is not positive", got=workers, allowed=">= 1", do="leave it out to use all cores")
    prepare_with_bar(plan, out, workers, Console(quiet=as_json))
    show_info(out, examples=2, as_json=as_json)


def prepare_with_bar(plan: Plan, out: Path, workers: int | None, console: Console) -> None:
    """Prepare with a progress bar."""
    columns = (
        *(TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn()),
        TimeRemainingColumn(),
    )
    with keeping(f"finished parts are kept in {out}"), bar(console, "preparing", *columns) as show:
        prepare(plan, out, workers=workers or os.cpu_count() or 1, progress=show)


def show_info(folder: Path, examples: int, as_json: bool) -> None:
    """A table of the splits, a histogram of lengths where rows differ, and a few examples."""
    require(examples >= 0, "the number of examples is negative", got=examples, allowed=">= 0", do="use 0 for none")
    dataset = Dataset(folder)
    manifest = dataset.manifest
    if as_json:
        document = asdict(manifest) | {"rows_per_split": {name: _rows(dataset, name) for name in dataset.splits}}
        print_json(document)
        return
    console = Console()
    console.print(f"{folder}: {manifest.plan['source']}", markup=False, highlight=False)
    console.print(f"vocabulary: {dataset.vocabulary} (V = {dataset.vocabulary.size:,})", highlight=False)
    console.print(_layout(dataset), highlight=False)
    console.print(_splits_table(dataset))
    if manifest.empty:
        console.print(f"{manifest.empty:,} row{'s' * (manifest.empty != 1)} without text left out", highlight=False)
    if not _rows(dataset, dataset.splits[0]):
        most = manifest.splits[dataset.splits[0]].tokens
        console.print(f"too short to train on: prepare it in another folder with a --length of at most {most:,}")
        return
    _, note = held_out(dataset)
    if note is not None and "valid" in dataset.splits:  # it exists, but is shorter than a sequence
        console.print(note, highlight=False, soft_wrap=True)
    first = dataset.split(dataset.splits[0])
    if manifest.rows and not np.all(first.lengths == first.length):
        console.print(_histogram(first), highlight=False)
    if manifest.dropped:
        console.print(f"{manifest.dropped:,} documents longer than {manifest.length} tokens were left out")
    for row in range(min(examples, len(first))):
        console.print(_example(dataset, first, row), markup=False, highlight=False)


def _layout(dataset: Dataset) -> str:
    manifest = dataset.manifest
    if not manifest.rows:
        return f"packed text, cut into sequences of {manifest.length} tokens"
    shape = " × ".join(map(str, manifest.shape))
    classes = f", {len(manifest.label_names)} classes" if manifest.label_names else ""
    return f"one document per row, {shape} tokens{classes}"


def _splits_table(dataset: Dataset) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    splits = dataset.manifest.splits
    whole = all(part.documents == 1 for part in splits.values())  # a running text, cut by position
    table.add_column("split")
    for heading in ("tokens", "rows") if whole else ("tokens", "documents", "rows"):
        table.add_column(heading, justify="right")
    for name, part in splits.items():
        documents = [] if whole else [f"{part.documents:,}"]
        table.add_row(name, f"{part.tokens:,}", *documents, f"{_rows(dataset, name):,}")
    return table


def _rows(dataset: Dataset, name: str) -> int:
    try:
        return len(dataset.split(name))
    except ValueError:  # shorter than one sequence
        return 0


def _histogram(split: Split, width: int = 48) -> str:
    counts, _ = np.histogram(split.lengths, bins=width, range=(0, split.length))
    bars = "".join(_BLOCKS[int(np.ceil(8 * c / max(counts.max(), 1)))] for c in counts)
    half, most = np.quantile(split.lengths, [0.5, 0.95]).astype(int)
    return f"lengths 0 {bars} {split.length}   (half are at most {half}, 95 % at most {most})"


def _example(dataset: Dataset, split: Split, row: int) -> str:
    batch = split.read(np.array([row]))
    tokens = batch.tokens[0] if batch.valid is None else batch.tokens[0][batch.valid[0]]
    names = dataset.manifest.label_names
    label = f" [{names[int(batch.labels[0])]}]" if batch.labels is not None and names else ""
    if is_picture(dataset.vocabulary, split.shape):
        return f"row {row}{label}\n{_picture(tokens)}"
    text = dataset.vocabulary.decode(tokens)
    return f"row {row}{label}: {text[:300]!r}{'…' if len(text) > 300 else ''}"


def _picture(pixels: NDArray[Any], width: int = 32) -> str:
    """A small image as text, two columns for each pixel."""
    grey = pixels.mean(-1) if pixels.ndim == 3 else pixels
    step = max(1, grey.shape[1] // width)
    return "\n".join("".join(_BLOCKS[int(v) * 8 // 255] * 2 for v in line) for line in grey[::step, ::step])
