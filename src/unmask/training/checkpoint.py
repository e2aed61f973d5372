"""Checkpoints: folders that are whole or absent, the last few and the best kept, damaged ones named and passed over.

checkpoints/step-00001000/
    weights.safetensors     the network (and the learned schedule)
    average.safetensors     their moving average
    optimizer.safetensors   the optimisers' tensors
    state.json              step, numbers, and the sha256 of the files above
"""

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from ..files import digest

Tensors = dict[str, Tensor]
STATE = "state.json"


@dataclass(frozen=True)
class Snapshot:
    """All that is needed to go on as if nothing had happened."""

    step: int
    """Steps done."""
    weights: Tensors
    average: Tensors
    optimizer: list[dict[str, Any]]
    numbers: dict[str, Any] = field(default_factory=dict)
    """Anything else that is small and JSON: best validation, tokens seen."""


def name_of(step: int) -> str:
    """The folder of a step; names sort by step."""
    return f"step-{step:08d}"


def save(folder: Path, snapshot: Snapshot) -> Path:
    """Write a checkpoint so that it appears only when it is complete and on disk."""
    target = folder / name_of(snapshot.step)
    partial = folder / f".{target.name}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        tensors, numbers = _flatten(snapshot.optimizer)
        parts = {"weights": snapshot.weights, "average": snapshot.average, "optimizer": tensors}
        for name, values in parts.items():
            contiguous = {key: value.detach().contiguous() for key, value in values.items()}
            save_file(contiguous, partial / f"{name}.safetensors")
        hashes = {f"{name}.safetensors": digest(partial / f"{name}.safetensors") for name in parts}
        document = {"step": snapshot.step, "numbers": snapshot.numbers, "optimizer": numbers, "sha256": hashes}
        (partial / STATE).write_text(json.dumps(document, indent=1))
        for path in partial.iterdir():
            _flush(path)
        shutil.rmtree(target, ignore_errors=True)
        partial.rename(target)
        _flush(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return target


def load(path: Path, device: torch.device | str = "cpu") -> Snapshot:
    """Read a checkpoint, checking every file; ValueError says what is damaged."""
    try:
        document = json.loads((path / STATE).read_text())
        for name, sha256 in document["sha256"].items():
            if digest(path / name) != sha256:
                raise ValueError(f"{path / name} is damaged: its hash differs")
        parts = {
            name: load_file(path / f"{name}.safetensors", str(device)) for name in ("weights", "average", "optimizer")
        }
        optimizer = _unflatten(parts["optimizer"], document["optimizer"])
        return Snapshot(document["step"], parts["weights"], parts["average"], optimizer, document["numbers"])
    except (OSError, KeyError, json.JSONDecodeError, SafetensorError) as error:
        raise ValueError(f"{path} is damaged: {error}") from None


def load_latest(
    folder: Path, device: torch.device | str = "cpu", warn: Callable[[str], None] = print
) -> Snapshot | None:
    """The newest whole checkpoint; damaged ones are named and passed over. None if there is none."""
    for path in sorted(folder.glob("step-*"), reverse=True):
        try:
            return load(path, device)
        except ValueError as mistake:
            warn(f"{mistake}; going on from the checkpoint before it")
    return None


def prune(folder: Path, keep: int, best: int | None) -> None:
    """Delete all but the last `keep` checkpoints and the best one."""
    paths = sorted(folder.glob("step-*"))
    spared = {name_of(best)} if best is not None else set()
    for path in paths[: max(0, len(paths) - keep)]:
        if path.name not in spared:
            shutil.rmtree(path)


def _flatten(states: list[dict[str, Any]]) -> tuple[Tensors, list[dict[str, Any]]]:
    """Optimiser states as named tensors, and their other numbers as JSON."""
    tensors: Tensors = {}
    numbers: list[dict[str, Any]] = []
    for part, state in enumerate(states):
        scalars: dict[str, dict[str, Any]] = {}
        for index, values in state["state"].items():
            for key, value in values.items():
                if isinstance(value, Tensor):
                    tensors[f"{part}.{index}.{key}"] = value
                else:
                    scalars.setdefault(str(index), {})[key] = value
        numbers.append({"scalars": scalars, "param_groups": state["param_groups"]})
    return tensors, numbers


def _unflatten(tensors: Tensors, numbers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    states: list[dict[str, Any]] = []
    for part in numbers:
        state = {int(index): dict(values) for index, values in part["scalars"].items()}
        states.append({"state": state, "param_groups": part["param_groups"]})
    for name, tensor in tensors.items():
        number, index, key = name.split(".", 2)
        states[int(number)]["state"].setdefault(int(index), {})[key] = tensor
    return states


def _flush(path: Path) -> None:
    """Wait until a file or folder is on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
