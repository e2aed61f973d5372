"""Checkpoints: written atomically as folders; the last few and the best are kept, damaged ones reported and skipped.

checkpoints/step-00001000/
    weights.safetensors     the network (and any parameters of the method itself)
    average.safetensors     their moving average
    optimizer/              moments, by torch.distributed.checkpoint in its safetensors form: nothing is pickled
    state.json              step, numbers, and the SHA-256 of every file
"""

import json
import os
import shutil
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader, HuggingFaceStorageWriter
from torch.distributed.checkpoint.state_dict_loader import load as load_sharded
from torch.distributed.checkpoint.state_dict_saver import save as save_sharded

from ..files import digest
from ..mistakes import fail
from .world import ALONE, World, full_tensors

Tensors = dict[str, Tensor]
STATE, OPTIMIZER = "state.json", "optimizer"


@dataclass(frozen=True)
class Snapshot:
    """Everything needed to resume training exactly where it stopped."""

    step: int
    """Steps completed."""
    weights: Tensors
    average: Tensors
    optimizer: Tensors
    numbers: dict[str, Any] = field(default_factory=dict)
    """Other small values, stored as JSON: best validation, tokens seen."""


def name_of(step: int) -> str:
    """Name of the folder that holds the checkpoint of a step."""
    return f"step-{step:08d}"


def steps_in(folder: Path) -> list[int]:
    """The steps that have a checkpoint, intact or not, in order; folders with other names are ignored."""
    names = (path.name for path in folder.glob("step-*"))
    numbers = (int(name[5:]) for name in names if name[5:].isascii() and name[5:].isdigit())
    return sorted({step for step in numbers if (folder / name_of(step)).is_dir()})


def save(folder: Path, snapshot: Snapshot, world: World = ALONE) -> Path:
    """Write a checkpoint that becomes visible only once it is complete and on disk. All ranks must call this.

    The first rank writes the full weights and average; every rank writes its own part of the optimiser's tensors.
    """
    target = folder / name_of(snapshot.step)
    partial = folder / f".{target.name}.partial"
    try:
        with world.first_only() as ours, _plainly(target):
            if ours:
                for left in folder.glob(".step-*.partial"):  # left behind if the process was killed while writing
                    shutil.rmtree(left, ignore_errors=True)
                partial.mkdir(parents=True)
        for name, tensors in (("weights", snapshot.weights), ("average", snapshot.average)):
            whole = full_tensors(tensors)
            with world.first_only() as ours, _plainly(target):
                if ours:
                    save_file({k: v.detach().contiguous() for k, v in whole.items()}, _file(partial, name))
        with _one_process(), _plainly(target):
            writer = HuggingFaceStorageWriter(str(partial / OPTIMIZER), save_distributed=True)
            moments = {k: v.contiguous() for k, v in snapshot.optimizer.items()}  # may be channels-last on a GPU
            save_sharded(moments, storage_writer=writer, no_dist=world.size == 1)
        with world.first_only() as ours, _plainly(target):
            if ours:
                _finish(partial, target, snapshot)
    finally:
        if world.first:
            shutil.rmtree(partial, ignore_errors=True)
    return target


def _finish(partial: Path, target: Path, snapshot: Snapshot) -> None:
    """Write hashes and numbers, flush everything to disk, then rename the folder to its final name."""
    files = sorted(path for path in partial.rglob("*") if path.is_file())
    hashes = {str(path.relative_to(partial)): digest(path) for path in files}
    document = {"step": snapshot.step, "numbers": snapshot.numbers, "sha256": hashes}
    (partial / STATE).write_text(json.dumps(document, indent=1))
    usual = (partial / STATE).stat().st_mode
    for path in files:
        path.chmod(usual)  # safetensors makes its files readable by the owner only
    for path in partial.rglob("*"):
        _flush(path)
    shutil.rmtree(target, ignore_errors=True)
    partial.rename(target)
    _flush(target.parent)


@contextmanager
def _plainly(target: Path) -> Iterator[None]:
    """Report the underlying OSError, usually a full disk, which both libraries hide."""
    try:
        yield
    except (SafetensorError, CheckpointException, OSError) as error:
        before = "; the previous checkpoint is intact" if steps_in(target.parent) else ""
        raise OSError(f"{target} could not be written: {_cause(error)}{before}") from None


def load(path: Path, optimizer: Tensors, world: World = ALONE) -> Snapshot:
    """Read a checkpoint that `newest` has found intact.

    `optimizer` holds tensors with the right names and shapes, which are overwritten in place; they may be sharded
    differently from how they were saved. Weights and average are returned in full, on the CPU.
    """
    document = json.loads((path / STATE).read_text())
    weights, average = (load_file(_file(path, name)) for name in ("weights", "average"))
    with _one_process():
        reader = HuggingFaceStorageReader(str(path / OPTIMIZER))
        load_sharded(optimizer, storage_reader=reader, no_dist=world.size == 1)
    return Snapshot(document["step"], weights, average, optimizer, document["numbers"])


def load_weights(path: Path, average: bool = True) -> Tensors:
    """Load only the moving average of the weights or, with average=False, the raw weights; only they are verified."""
    file = _file(path, "average" if average else "weights")
    _verify(path, [file.name])
    return load_file(file)


def to_stderr(warning: str) -> None:
    """Print a warning to stderr, so that machine-readable output on stdout stays intact."""
    print(warning, file=sys.stderr)


def newest(folder: Path, warn: Callable[[str], None] = to_stderr) -> Path | None:
    """The newest intact checkpoint; damaged ones are reported and skipped. None if there is no checkpoint at all."""
    steps = steps_in(folder)
    for step in reversed(steps):
        path = folder / name_of(step)
        try:
            _verify(path)
            return path
        except ValueError as mistake:
            if step == steps[0]:  # starting over would overwrite what may still be repairable
                raise ValueError(f"{mistake}; no other one is intact: move {folder} away to start over") from None
            warn(f"{mistake}; resuming from the previous checkpoint")
    return None


def best(folder: Path) -> Path | None:
    """The checkpoint with the lowest held-out bound, as recorded in the newest one."""
    path = newest(folder, warn=lambda _: None)
    found = _state(path)["numbers"].get("best") if path else None
    return folder / name_of(found[1]) if found else path


def prune(folder: Path, keep: int, best: int | None, last: int) -> None:
    """Delete all checkpoints except the best one and the newest `keep` of those up to step `last`.

    Later ones are damaged: had they been intact, training would have resumed from them.
    """
    steps = steps_in(folder)
    spared = {best, *[step for step in steps if step <= last][-keep:]}
    for step in steps:
        if step not in spared:
            shutil.rmtree(folder / name_of(step))


def _verify(path: Path, names: Iterable[str] | None = None) -> None:
    """Check files of a checkpoint against their hashes; None: all of them."""
    hashes = _state(path)["sha256"]
    with _naming(path):
        for name in hashes if names is None else names:
            if (got := digest(path / name)) != hashes[name]:
                do = "delete the checkpoint to resume from the previous one"
                fail(f"{path / name} is damaged", got=f"sha256 {got[:12]}…", allowed=f"{hashes[name][:12]}…", do=do)


def _state(path: Path) -> dict[str, Any]:
    """The content of state.json, which must be complete."""
    with _naming(path):
        document: dict[str, Any] = json.loads((path / STATE).read_text())
        named = {name.split("/")[0].removesuffix(".safetensors") for name in document["sha256"]}
        step, numbers = document["step"], document["numbers"]
        if named != {"weights", "average", OPTIMIZER} or type(step) is not int or not isinstance(numbers, dict):
            raise TypeError(f"{STATE} is incomplete")
        return document


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Name a checkpoint that cannot be read. With a PermissionError, whether it is intact cannot be determined."""
    try:
        yield
    except PermissionError:
        raise
    except (OSError, KeyError, TypeError, AttributeError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path} is damaged: {error}") from None


def _file(folder: Path, name: str) -> Path:
    return folder / f"{name}.safetensors"


@contextmanager
def _one_process() -> Iterator[None]:
    """Silence the warning of torch.distributed.checkpoint that there is only one process."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="torch.distributed is disabled")
        yield


def _cause(error: BaseException) -> str:
    failures = error.failures.values() if isinstance(error, CheckpointException) else []
    first = next((f[0] for f in failures), error)
    return (str(first).splitlines() or [type(first).__name__])[0]


def _flush(path: Path) -> None:
    """Flush a file or folder to disk (fsync)."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
