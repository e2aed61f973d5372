"""What each speed optimisation gains: each is disabled separately, in one run on one GPU.

python -m benchmarks.training_ablation
"""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch

from unmask.core import streams
from unmask.evaluation import loss
from unmask.networks import fused
from unmask.run import NetworkConfig, RunConfig
from unmask.run.bench import measure
from unmask.training import MD4Config, Method, TrainingConfig

from .record import Record, command
from .training_speed import CIFAR, GPT2, TEXT8

Change = Callable[[], Any]


@contextmanager
def _set(thing: Any, name: str, value: Any) -> Iterator[None]:
    before = getattr(thing, name)
    setattr(thing, name, value)
    try:
        yield
    finally:
        setattr(thing, name, before)


CHANGES: dict[str, tuple[Change, str]] = {
    "as it is": (nullcontext, "blocks"),
    "compiled as a whole": (nullcontext, "whole"),
    "without our kernels": (lambda: _set(fused, "has_kernel", lambda x: False), "blocks"),  # noqa: ARG005
    "without the fused MLP": (lambda: _set(fused, "has_product", lambda x: False), "blocks"),  # noqa: ARG005
    "without the CUDA graph": (lambda: _set(Method, "record", lambda self, accumulates: None), "blocks"),  # noqa: ARG005
    "random numbers by tensor operations": (lambda: _set(streams, "HAVE_TRITON", False), "blocks"),
    "logits chosen by mask": (lambda: _set(loss, "_DENSE", 0), "blocks"),
    "not compiled": (nullcontext, "off"),
}
CASES: dict[str, tuple[NetworkConfig, tuple[int, ...], int]] = {
    "text8": (TEXT8, (256,), 512),
    "GPT-2 small": (GPT2, (1024,), 64),
    "CIFAR-10": (CIFAR, (32, 32, 3), 256),
}
LEFT_OUT = {("CIFAR-10", "compiled as a whole"), ("CIFAR-10", "without the fused MLP")}
"""Compiling the U-Net as a whole takes minutes, and it has no such MLP."""


def main() -> None:
    """Measure each change in each case; results are written after each."""
    record, rows = Record("training_ablation", seed=0), []
    for case, (network, shape, batch) in CASES.items():
        for change, (made, compiled) in CHANGES.items():
            if (case, change) in LEFT_OUT:
                continue
            gc.collect()
            torch._dynamo.reset()
            torch.cuda.empty_cache()
            training = TrainingConfig(steps=10**6, batch_size=batch, compile=compiled)  # type: ignore[arg-type]
            config = RunConfig("", network, MD4Config(), training)
            with made():
                found = measure(config, shape, torch.device("cuda"), windows=3, window=8, breakdown=False)
            rows.append(
                {
                    "case": case,
                    "change": change,
                    "tokens_per_s": found.tokens_per_s,
                    "spread": found.spread,
                    "peak_gib": found.peak_gib,
                }
            )
            print(rows[-1], flush=True)
            record.write(rows=rows)


if __name__ == "__main__":
    command(main)
