"""Checkpoints: folders that are whole or absent, the last few and the best kept, damaged ones named and passed over.

checkpoints/step-00001000/
    weights.safetensors     the network (and what the method learns itself)
    average.safetensors     their moving average
    optimizer/              moments, by torch.distributed.checkpoint in its safetensors form: nothing is pickled
    state.json              step, numbers, and the sha256 of all files
"""

import json
import os
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
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
    """All that is needed to go on as if nothing had happened."""

    step: int
    """Steps done."""
    weights: Tensors
    average: Tensors
    optimizer: Tensors
    numbers: dict[str, Any] = field(default_factory=dict)
    """Anything else that is small and JSON: best validation, tokens seen."""


def name_of(step: int) -> str:
    """The folder of a step."""
    return f"step-{step:08d}"


def steps_in(folder: Path) -> list[int]:
    """The steps that have a checkpoint, whole or not, in order; a folder of any other name is the user's."""
    names = (path.name for path in folder.glob("step-*"))
    numbers = (int(name[5:]) for name in names if name[5:].isascii() and name[5:].isdigit())
    return sorted({step for step in numbers if (folder / name_of(step)).is_dir()})


def save(folder: Path, snapshot: Snapshot, world: World = ALONE) -> Path:
    """Write a checkpoint so that it appears only when it is complete and on disk. All ranks must take part.

    Weights and average are written whole by the first rank, the optimiser's tensors by every rank its own part.
    """
    target = folder / name_of(snapshot.step)
    partial = folder / f".{target.name}.partial"
    try:
        with world.first_only() as ours, _plainly(target):
            if ours:
                for left in folder.glob(".step-*.partial"):  # by a kill while it was written
                    shutil.rmtree(left, ignore_errors=True)
                partial.mkdir(parents=True)
        for name, tensors in (("weights", snapshot.weights), ("average", snapshot.average)):
            whole = full_tensors(tensors)
            with world.first_only() as ours, _plainly(target):
                if ours:
                    save_file({k: v.detach().contiguous() for k, v in whole.items()}, _file(partial, name))
        with _one_process(), _plainly(target):
            writer = HuggingFaceStorageWriter(str(partial / OPTIMIZER), save_distributed=True)
            moments = {k: v.contiguous() for k, v in snapshot.optimizer.items()}  # channels may lie last on a GPU
            save_sharded(moments, storage_writer=writer, no_dist=world.size == 1)
        with world.first_only() as ours, _plainly(target):
            if ours:
                _finish(partial, target, snapshot)
    finally:
        if world.first:
            shutil.rmtree(partial, ignore_errors=True)
    return target


def _finish(partial: Path, target: Path, snapshot: Snapshot) -> None:
    """Hashes and numbers, everything to disk, then the name under which it counts."""
    files = sorted(path for path in partial.rglob("*") if path.is_file())
    hashes = {str(path.relative_to(partial)): digest(path) for path in files}
    document = {"step": snapshot.step, "numbers": snapshot.numbers, "sha256": hashes}
    (partial / STATE).write_text(json.dumps(document, indent=1))
    usual = (partial / STATE).stat().st_mode
    for path in files:
        path.chmod(usual)  # safetensors lets nobody but us read what it writes
    for path in partial.rglob("*"):
        _flush(path)
    shutil.rmtree(target, ignore_errors=True)
    partial.rename(target)
    _flush(target.parent)


@contextmanager
def _plainly(target: Path) -> Iterator[None]:
    """Both libraries hide the OSError beneath, a full disk mostly."""
    try:
        yield
    except (SafetensorError, CheckpointException, OSError) as error:
        before = "; the checkpoint before it is intact" if steps_in(target.parent) else ""
        raise OSError(f"{target} could not be written: {_cause(error)}{before}") from None


def load(path: Path, optimizer: Tensors, world: World = ALONE) -> Snapshot:
    """Read a checkpoint that `newest` has found whole.

    `optimizer` holds tensors of the right names and shapes, which are overwritten; this rank may hold parts of them,
    other parts than those that were saved. Weights and average come back whole, on the CPU.
    """
    document = json.loads((path / STATE).read_text())
    weights, average = (load_file(_file(path, name)) for name in ("weights", "average"))
    with _one_process():
        reader = HuggingFaceStorageReader(str(path / OPTIMIZER))
        load_sharded(optimizer, storage_reader=reader, no_dist=world.size == 1)
    return Snapshot(document["step"], weights, average, optimizer, document["numbers"])


def load_weights(path: Path, average: bool = True, device: torch.device | str = "cpu") -> Tensors:
    """Only the weights, or their moving average."""
    _checked(path)
    return load_file(_file(path, "average" if average else "weights"), str(device))


def to_stderr(warning: str) -> None:
    """So that what a program reads from us stays as it is."""
    print(warning, file=sys.stderr)


def newest(folder: Path, warn: Callable[[str], None] = to_stderr) -> Path | None:
    """The newest whole checkpoint; damaged ones are named and passed over. None if there is none at all."""
    steps = steps_in(folder)
    for step in reversed(steps):
        path = folder / name_of(step)
        try:
            _checked(path)
            return path
        except ValueError as mistake:
            if step == steps[0]:  # to begin again would write over what may still be mended
                raise ValueError(f"{mistake}; no other is whole: move {folder} away to begin again") from None
            warn(f"{mistake}; going on from the checkpoint before it")
    return None


def best(folder: Path) -> Path | None:
    """The checkpoint with the lowest held-out bound, as the newest one remembers it."""
    path = newest(folder, warn=lambda _: None)
    found = _checked(path)["numbers"].get("best") if path else None
    return folder / name_of(found[1]) if found else path


def prune(folder: Path, keep: int, best: int | None, last: int) -> None:
    """Delete all but `keep` checkpoints up to the last step and the best one.

    Later ones are damaged: had they been whole, training would have gone on from there.
    """
    steps = steps_in(folder)
    spared = {best, *[step for step in steps if step <= last][-keep:]}
    for step in steps:
        if step not in spared:
            shutil.rmtree(folder / name_of(step))


def _checked(path: Path) -> dict[str, Any]:
    """state.json, after every file was compared with its hash."""
    try:
        document: dict[str, Any] = json.loads((path / STATE).read_text())
        hashes = document["sha256"]
        named = {name.split("/")[0].removesuffix(".safetensors") for name in hashes}
        step, numbers = document["step"], document["numbers"]
        if named != {"weights", "average", OPTIMIZER} or type(step) is not int or not isinstance(numbers, dict):
            raise TypeError(f"{STATE} is not whole")
        for name, sha256 in hashes.items():
            if (got := digest(path / name)) != sha256:
                do = "delete the checkpoint to go on from the one before"
                fail(f"{path / name} is damaged", got=f"sha256 {got[:12]}…", allowed=f"{sha256[:12]}…", do=do)
        return document
    except PermissionError:  # whole or not, nobody can know
        raise
    except (OSError, KeyError, TypeError, AttributeError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path} is damaged: {error}") from None


def _file(folder: Path, name: str) -> Path:
    return folder / f"{name}.safetensors"


@contextmanager
def _one_process() -> Iterator[None]:
    """torch.distributed.checkpoint warns when there is only one process, which is no news."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="torch.distributed is disabled")
        yield


def _cause(error: BaseException) -> str:
    failures = error.failures.values() if isinstance(error, CheckpointException) else []
    first = next((f[0] for f in failures), error)
    return (str(first).splitlines() or [type(first).__name__])[0]


def _flush(path: Path) -> None:
    """Wait until a file or folder is on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
