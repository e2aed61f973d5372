"""Weights in safetensors files, and whether they fit a model. Nothing is ever unpickled."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import Tensor

from ..mistakes import fail, first_line, require
from ..training import Method
from .config import RunConfig

Tensors = dict[str, Tensor]
_DEEPEST = 4096
"""Most layers that a configuration may have: more would only waste time."""
ABOUT = "unmask"
"""The only metadata entry beside the tensors: with several, their order would vary."""


@contextmanager
def plainly(path: Path) -> Iterator[None]:
    """Report in one line a file that is not valid safetensors, such as a truncated one or a pickle."""
    try:
        yield
    except SafetensorError as error:
        fail(
            f"{path} is damaged", got=first_line(error), allowed="weights in safetensors form", do="get the file again"
        )


def read(path: Path) -> Tensors:
    """The tensors of a file; floating-point tensors become float32, however they are stored."""
    with plainly(path):
        return {name: x.float() if x.is_floating_point() else x for name, x in load_file(path).items()}


def about(path: Path) -> dict[str, str]:
    """The metadata stored beside the tensors: strings by name."""
    with plainly(path), safe_open(path, "pt") as file:
        said = (file.metadata() or {}).get(ABOUT, "{}")
    try:
        return {str(key): str(value) for key, value in json.loads(said).items()}
    except (ValueError, AttributeError, RecursionError) as error:
        fail(f"{path} is damaged", got=error, allowed="what an export writes", do="get the file again")


def skeleton(config: RunConfig, source: Path) -> Method:
    """The method of a configuration, with a network that takes no memory."""
    try:
        deep = max(getattr(config.network, name, 0) for name in ("layers", "blocks"))
        do = "get the file again"
        what, allowed = f"{source} describes no valid network", f"<= {_DEEPEST} layers"
        require(deep <= _DEEPEST, what, got=deep, allowed=allowed, do=do)
        with torch.device("meta"):
            network = config.network.build()
        return config.method.build(network)
    except (TypeError, AttributeError, RuntimeError) as error:  # values of a wrong type, or that no network can have
        allowed, do = "an unmask configuration", "get the file again"
        fail(f"{source} describes no valid network", got=first_line(error), allowed=allowed, do=do)


def built(config: RunConfig, tensors: Tensors, source: Path) -> Method:
    """The method of a configuration with these weights, which are checked before any memory is allocated."""
    expected = skeleton(config, source).state_dict()
    wrong = [f"{name} missing" for name in expected if name not in tensors]
    wrong += [f"{name} unknown" for name in tensors if name not in expected]
    wrong += [
        f"{name} {_form(tensors[name])} instead of {_form(x)}"
        for name, x in expected.items()
        if name in tensors and _form(tensors[name]) != _form(x)
    ]
    if wrong:
        got = ", ".join(wrong[:3]) + (f" and {len(wrong) - 3} more" if len(wrong) > 3 else "")
        what, allowed = f"the weights of {source} do not fit its configuration", "exactly the tensors of its network"
        fail(what, got=got, allowed=allowed, do="get it again")
    method = config.method.build(config.network.build())
    method.load_state_dict(tensors)
    return method


def _form(x: Tensor) -> str:
    """The shape of a tensor, and whether it holds integers."""
    return "×".join(map(str, x.shape)) + ("" if x.is_floating_point() else " integers")
