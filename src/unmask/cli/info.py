"""`unmask info`: what a folder holds: prepared data, a run or a model."""

import shlex
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.filesize import decimal
from rich.table import Table

from unmask.data.manifest import FILE
from unmask.files import size_of
from unmask.mistakes import fail
from unmask.run import Exported, ModelFolder, Run, find_model
from unmask.run.describe import Description
from unmask.run.folder import CONFIG
from unmask.run.history import History, checkpoints, evaluations
from unmask.run.places import shipped

from . import data
from .machine import print_json

Rows = dict[str, str]


def run(target: str, examples: int, as_json: bool) -> int:
    """Find out what the folder holds, and describe it."""
    folder = Path(target)
    if (folder / FILE).exists():
        data.show_info(folder, examples, as_json)
        return 0
    if folder.is_dir() and not (folder / CONFIG).exists() and target not in shipped():
        fail(
            f"{folder} was not made by unmask",
            got=f"neither {FILE} (prepared data) nor {CONFIG} (a run or a model)",
            allowed="a folder made by unmask data prepare, unmask train or unmask export",
            do="check the path",
        )
    found = find_model(target)
    about = Description.of(found)
    document, rows = _of_run(found) if isinstance(found, Run) else _of_model(found)
    if as_json:
        print_json(document | asdict(about) | {"bytes": size_of(found.folder)})
        return 0
    _show(f"{target}: a {document['kind']}", _described(about) | rows, found)
    return 0


def _of_run(run_: Run) -> tuple[dict[str, Any], Rows]:
    history, kept, now = History.of(run_), checkpoints(run_), run_.identity
    found = evaluations(run_)
    measured = [one.line if one.checkpoint in (None, now) else f"{one.line}, of {one.checkpoint}" for one in found]
    bits = history.held_out
    name = shlex.quote(str(run_.folder))
    following = [f"unmask sample {name}", f"unmask eval {name}", f"unmask export {name} models/NAME"] if kept else []
    unfinished = history.step < history.steps
    following = [f"unmask train --out {name}"] * unfinished + following
    rows = {
        "progress": f"{history.step:,} of {history.steps:,} steps",
        "loss": "" if history.loss is None else f"{history.loss:.4f} bits per token, mean of the last steps",
        "held-out bound": "" if bits is None else f"{bits} at step {history.held_out_step:,}",
        "checkpoints": ", ".join(kept) or "none yet",
        "evaluations": "\n".join(measured) or "none yet",
        "next": "\n".join(following),
    }
    document = {"kind": "run", "history": asdict(history), "checkpoints": kept, "evaluations": measured}
    return document, rows


def _of_model(model: ModelFolder) -> tuple[dict[str, Any], Rows]:
    said = model.about() if isinstance(model, Exported) else {}
    rows = {
        "weights": ", ".join(said[key] for key in ("weights", "dtype") if key in said),
        "progress": f"step {said['step']} of {said['steps']}" if "step" in said and "steps" in said else "",
        "held-out bound": said.get("held_out", ""),
        "evaluations": said.get("measured", ""),
    }
    return {"kind": "model", "about": said}, rows


def _described(about: Description) -> Rows:
    others = [name for name in about.samplers if name != about.sampler]
    return {
        "method": about.method,
        "network": f"{about.network}; {about.parameters:,} parameters",
        "vocabulary": f"{about.vocabulary} (V = {about.vocabulary_size:,})",
        "a sample": about.rows,
        "classes": f"{len(about.classes)}: {', '.join(about.classes[:20])}" if about.classes else "",
        "data": about.data,
        "training": about.training,
        "samplers": ", ".join([f"{about.sampler} (default)", *others]),
    }


def _show(title: str, rows: Rows, found: ModelFolder) -> None:
    console = Console()
    console.print(f"{title}, {decimal(size_of(found.folder))}", markup=False, highlight=False)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows.items():
        if value:
            table.add_row(name, value)
    console.print(table, markup=False, highlight=False)
