"""The capabilities of this machine."""

import importlib.util
import os
from functools import partial

import torch

from ..mistakes import fail, first_line

HAVE_TRITON = importlib.util.find_spec("triton") is not None and (
    torch.cuda.is_available() or os.environ.get("TRITON_INTERPRET") == "1"
)
"""Whether the Triton kernels can run: on a GPU, or anywhere in Triton's interpreter, which the tests use."""

if hasattr(os, "register_at_fork"):
    # The threads of CPU tensor operations do not survive a fork; the child process would wait for them forever.
    os.register_at_fork(after_in_child=partial(torch.set_num_threads, 1))


def best_device() -> torch.device:
    """The GPU if there is one, else the CPU."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def on_gpu(device: torch.device) -> bool:
    """Whether the device is a CUDA GPU, which computes in bfloat16 and asynchronously to the host."""
    return device.type == "cuda"


def mixed(device: torch.device) -> torch.autocast:
    """Autocast for a trained network: matrix products in bfloat16 on a GPU, no change elsewhere."""
    return torch.autocast(device.type, torch.bfloat16, enabled=on_gpu(device))


def usable(name: torch.device | str) -> torch.device:
    """The device of this name, if this machine has it."""
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
        return device
    except (RuntimeError, AssertionError) as error:
        got, allowed = f"{name} ({first_line(error)})", "cpu, or cuda with a GPU"
        fail("this device cannot be used", got=got, allowed=allowed, do="use cpu")
