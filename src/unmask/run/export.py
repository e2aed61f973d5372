"""Exporting a model: a self-contained folder that appears complete or not at all."""

import json
import shutil
from dataclasses import asdict, replace
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file

from ..configs import to_json
from ..files import atomic_folder, atomic_write, check_replaceable, write_json
from ..mistakes import fail, first_line
from .card import card
from .describe import Description
from .folder import CARD, CONFIG, FACTS, FILES, VOCABULARY, WEIGHTS, Exported, ModelFolder, Run
from .history import History, evaluations
from .model import load
from .weights import ABOUT

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
"""How weights can be stored; in memory they are float32."""


def export(
    source: ModelFolder, out: Path, *, average: bool = True, best: bool = False, dtype: str = "fp32", name: str = ""
) -> Exported:
    """Write a model to a folder of its own, replacing an existing export. `name`: the model's name in its card."""
    if dtype not in DTYPES:
        fail("unknown dtype", got=dtype, allowed=", ".join(DTYPES), do="choose one of them")
    check_replaceable(out, FILES, optional=[CARD])
    if isinstance(source, Run):  # the same checkpoint from here on, verified once
        source = replace(source, at=source.chosen(best).name)
    model = load(source, average=average, device="cpu")
    about = _about(source, average) | {"dtype": dtype}
    found = Description.of(source)
    tensors = {
        key: (x.to(DTYPES[dtype]) if x.is_floating_point() else x).contiguous()
        for key, x in model.method.state_dict().items()
    }
    with atomic_folder(out, FILES, optional=[CARD]) as partial:
        write_json(partial / CONFIG, to_json(replace(source.config, data=found.data, start=None)))
        write_json(partial / VOCABULARY, model.vocabulary.to_json())
        write_json(partial / FACTS, asdict(model.facts))
        try:
            save_file(tensors, partial / WEIGHTS, metadata={ABOUT: json.dumps(about)})
        except SafetensorError as error:  # hides the underlying OSError, usually a full disk
            raise OSError(f"{out} could not be written: {first_line(error)}") from None
        shutil.copymode(partial / CONFIG, partial / WEIGHTS)  # the library makes its files private to their owner
        with atomic_write(partial / CARD, "w") as file:
            file.write(card(name or out.resolve().name, about, found))
    return Exported(out, out)


def _about(source: ModelFolder, average: bool) -> dict[str, str]:
    """Where the weights come from and what was measured with them; the record of an export also holds for its copy."""
    about = source.about() if isinstance(source, Exported) else {}
    if isinstance(source, Run):
        about = _about_run(source, average)
    own = [one.line for one in evaluations(source) if (one.checkpoint, one.average) == (source.identity, average)]
    measured = "\n".join([*about.pop("measured", "").splitlines(), *own])
    return about | ({"measured": measured} if measured else {})


def _about_run(run: Run, average: bool) -> dict[str, str]:
    """How far training had come at the pinned checkpoint, and the last bound it measured."""
    step = int(run.chosen().name.removeprefix("step-"))
    history = History.of(run, step)
    about = {"weights": "averaged" if average else "plain", "step": str(step), "steps": str(history.steps)}
    if history.held_out is not None:
        about["held_out"] = f"{history.held_out} at step {history.held_out_step:,}"
    return about
