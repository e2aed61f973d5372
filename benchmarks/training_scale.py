"""Training cost by the size of the model and the length of its sequences, on one GPU.

python -m benchmarks.training_scale
"""

import gc
from dataclasses import replace
from typing import Any

import torch

from unmask.networks import TransformerConfig
from unmask.run import SIZES, RunConfig
from unmask.run.bench import measure
from unmask.training import MD4Config, TrainingConfig

from .record import Record, command

VOCABULARY = 50_257
TOKENS = 65_536
LARGEST = ((40, 28, 3584), (40, 26, 3328))
"""Layers, heads and width to try, the largest first."""


def main() -> None:
    """Measure the largest model, sizes at N = 1,024, and lengths at 85 M, with and without recomputing the blocks."""
    record = Record("training_scale", seed=0)
    figures: dict[str, list[Any]] = {"largest": [], "sizes": [], "lengths": []}
    for shape in LARGEST:
        figures["largest"].append(_row(_network(*shape), 1024, True, tokens=8192))
        record.write(tokens=TOKENS, **figures)
        if figures["largest"][-1]["tokens_per_s"] is not None:
            break
    for recompute in (False, True):
        for name in ("10m", "85m", "300m", "1b"):
            figures["sizes"].append(_row(_network(*SIZES[name]), 1024, recompute, size=name))
            record.write(tokens=TOKENS, **figures)
        for length in (256, 1024, 2048, 4096, 8192):
            figures["lengths"].append(_row(_network(*SIZES["85m"]), length, recompute))
            record.write(tokens=TOKENS, **figures)


def _network(layers: int, heads: int, width: int) -> TransformerConfig:
    return TransformerConfig(VOCABULARY, layers, heads, width, mlp="relu2")


def _row(network: TransformerConfig, length: int, recompute: bool, *, tokens: int = TOKENS, **names: Any) -> Any:
    """One measurement; a setting that does not fit in memory gives a row without figures."""
    gc.collect()
    torch._dynamo.reset()
    torch.cuda.empty_cache()
    network = replace(network, recompute=recompute)
    training = TrainingConfig(steps=10**6, batch_size=tokens // length)
    row: dict[str, Any] = {**names, "length": length, "recompute": recompute, "tokens_per_s": None}
    row |= {"layers": network.layers, "width": network.width}
    try:
        config = RunConfig("", network, MD4Config(), training)
        found = measure(config, (length,), torch.device("cuda"), windows=3, window=2, warmup=4, breakdown=False)
        row |= {
            "parameters": found.parameters,
            "tokens_per_s": found.tokens_per_s,
            "peak_gib": found.peak_gib,
            "estimated_gib": found.estimated_gib,
            "mfu": found.mfu,
        }
    except torch.OutOfMemoryError:
        row["out_of_memory"] = True
    print(row, flush=True)
    return row


if __name__ == "__main__":
    command(main)
