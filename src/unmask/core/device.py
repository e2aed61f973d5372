"""What the machine can do."""

import importlib.util
import os

import torch

HAVE_TRITON = importlib.util.find_spec("triton") is not None and (
    torch.cuda.is_available() or os.environ.get("TRITON_INTERPRET") == "1"
)
"""Whether our Triton kernels can run: on a GPU, or anywhere in Triton's interpreter, which the tests use."""


def mixed(device: torch.device) -> torch.autocast:
    """For the use of a trained network: matrix products in bfloat16 on a GPU, nothing changed elsewhere."""
    return torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda")
