"""How fast the paper's settings train on one GPU, compared with a plain compiled implementation in the same run.

python -m benchmarks.training_speed            all of them
python -m benchmarks.training_speed text8      only settings whose name contains the word; others are kept
"""

import gc
import json
from dataclasses import asdict, replace
from typing import Any

import torch
import tyro

from unmask.networks import Conditioning, TransformerConfig, UNetConfig
from unmask.run import NetworkConfig, RunConfig
from unmask.run.bench import measure
from unmask.training import MD4Config, TrainingConfig

from . import plain
from .record import Record, command

SEEN = Conditioning(time=True, condition_width=128)
TEXT8 = TransformerConfig(27, mlp="relu2")
GPT2 = TransformerConfig(50_257, mlp="relu2")
CIFAR = UNetConfig()
CASES: dict[str, tuple[NetworkConfig, tuple[int, ...], int]] = {
    "text8, 12×768": (TEXT8, (256,), 512),
    "text8, 12×768, sees the time": (replace(TEXT8, conditioning=SEEN), (256,), 512),
    "text8, 12×768, gated MLP": (replace(TEXT8, mlp="gated"), (256,), 512),
    "GPT-2 small, V = 50,257": (GPT2, (1024,), 64),
    "GPT-2 small, V = 50,257, sees the time": (replace(GPT2, conditioning=SEEN), (1024,), 64),
    "CIFAR-10 U-Net": (CIFAR, (32, 32, 3), 256),
    "CIFAR-10 U-Net, sees the time": (replace(CIFAR, conditioning=Conditioning(time=True)), (32, 32, 3), 256),
}
PLAIN = {"text8, 12×768": (27, 256, 512), "GPT-2 small, V = 50,257": (50_257, 1024, 64)}


def main(word: tyro.conf.Positional[str] = "") -> None:
    """Measure the cases; results are written after each, so an interrupted run keeps its figures."""
    record, rows = Record("training_speed", seed=0), {}
    if word and record.path.exists():
        rows = {row["case"]: row for row in json.loads(record.path.read_text())["rows"]}
    for name, (network, shape, batch) in CASES.items():
        if word not in name:
            continue
        row = {"case": name, "batch_size": batch, **speed(network, shape, batch), "plain": None}
        if name in PLAIN:
            row["plain"] = plain.measure(*PLAIN[name])
        gc.collect()
        rows[name] = row
        record.write(rows=[rows[case] for case in CASES if case in rows])
        print(name, f"{row['tokens_per_s']:,.0f} tokens/s, {row['sequences_per_s']:,.0f} sequences/s", flush=True)


def speed(network: NetworkConfig, shape: tuple[int, ...], batch: int) -> dict[str, Any]:
    """The speed of one setting; a transformer is compiled as a whole, a U-Net block by block."""
    torch._dynamo.reset()
    torch.cuda.empty_cache()
    whole = isinstance(network, TransformerConfig)
    training = TrainingConfig(steps=10**6, batch_size=batch, compile="whole" if whole else "blocks")
    config = RunConfig("", network, MD4Config(), training)
    return asdict(measure(config, shape, torch.device("cuda"), windows=4, window=20))


if __name__ == "__main__":
    command(main)
