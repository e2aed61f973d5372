"""`unmask export` and `unmask push`: write, and report what was written."""

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from rich.filesize import decimal

from unmask.files import size_of
from unmask.run import Exported, ModelFolder, export, find_model
from unmask.run.hub import place

from .machine import print_json

if TYPE_CHECKING:
    from .sharing_commands import Push


def run_export(model: str, out: Path, best: bool, raw: bool, dtype: str, as_json: bool) -> int:
    """Export, and report the size."""
    done = export(find_model(model), out, average=not raw, best=best, dtype=dtype)
    size, about = size_of(done.folder), done.about()
    if as_json:
        print_json({"folder": str(out), "bytes": size, **about})
        return 0
    print(f"wrote {out}: {about.get('weights', '')} weights, {dtype}, {decimal(size)}; try unmask sample {out}")
    return 0


def run_push(wanted: "Push") -> int:
    """Push an exported model as it is, and a run by exporting it first."""
    source, target = find_model(wanted.model), place(wanted.repo)
    target.check(private=wanted.private)
    with tempfile.TemporaryDirectory() as folder:
        ready = _exported(source, Path(folder) / "model", wanted, target.name)
        where = target.push(ready.folder, private=wanted.private, message=wanted.message)
        size = size_of(ready.folder)
    if wanted.json:
        print_json({"model": where, "bytes": size})
        return 0
    print(f"pushed {decimal(size)}; try unmask sample {where}")
    return 0


def _exported(source: ModelFolder, folder: Path, wanted: "Push", name: str) -> ModelFolder:
    asked = wanted.best or wanted.raw or wanted.dtype != "fp32"
    if isinstance(source, Exported) and not asked:
        return source.copied(folder)
    return export(source, folder, average=not wanted.raw, best=wanted.best, dtype=wanted.dtype, name=name)
