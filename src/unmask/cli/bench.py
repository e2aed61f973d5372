"""`unmask bench train`: how fast a configuration trains on this machine, and what takes the time."""

import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from unmask.configs import to_json
from unmask.files import check_files, read_json, write_json
from unmask.mistakes import fail
from unmask.run import RunConfig
from unmask.run.bench import Bench, measure

from . import measured
from .machine import print_json


def run(
    config: RunConfig,
    shape: tuple[int, ...],
    windows: int,
    window: int,
    out: Path | None,
    compare: Path | None,
    as_json: bool,
) -> None:
    """Measure, show, write and compare."""
    check_files(out)
    console = Console(quiet=as_json)
    before = _read(compare) if compare else None
    device, name = measured.device()
    console.print(f"{name}, torch {torch.__version__}; the first step compiles", highlight=False)
    start = time.perf_counter()
    found = measure(config, shape, device, windows=windows, window=window)
    seed, setting = config.training.seed, {"config": to_json(config), "shape": list(shape)}
    document = measured.document(name, seed, start, **setting, **asdict(found))
    if out is not None:
        write_json(out, document)
    if as_json:
        print_json(document)
    else:
        _show(found, before, console)


def _read(path: Path) -> dict[str, Any]:
    try:
        document: dict[str, Any] = read_json(path)
        float(document["tokens_per_s"])
        return document
    except (KeyError, TypeError, ValueError):
        fail(f"{path} is not a result", got="another file", allowed="a file written by --out", do="measure it first")


def _show(found: Bench, before: dict[str, Any] | None, console: Console) -> None:
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), show_header=False)
    table.add_column()
    table.add_column(justify="right")
    low, high = found.spread
    table.add_row("tokens/s, median (slowest–fastest window)", f"{found.tokens_per_s:,.0f} ({low:,.0f}–{high:,.0f})")
    table.add_row("sequences/s", f"{found.sequences_per_s:,.1f}")
    table.add_row("first step, including compilation", f"{found.first_step_s:.1f} s")
    table.add_row("CPU cores kept busy", f"{found.cores:.2f}")
    if found.peak_gib is not None:
        table.add_row("peak memory (estimated)", f"{found.peak_gib:.1f} GiB ({found.estimated_gib:.1f})")
    if before is not None:
        table.add_row("relative to the file", f"{found.tokens_per_s / before['tokens_per_s']:.3f}×")
    for kind, share in sorted(found.breakdown.items(), key=lambda item: -item[1]):
        table.add_row(f"  {kind}", f"{share:.1%}")
    console.print(table)
    console.print(roofline(found), highlight=False)


def roofline(found: Bench) -> str:
    """The limiting factor, in one line."""
    rate = found.tokens_per_s * found.flops_per_token / 1e12
    if found.ceiling_tflops is None or found.mfu is None:
        return f"{rate:.3f} TFLOP/s of the model's own operations"
    ceiling = found.ceiling_tflops * 1e12 / found.flops_per_token
    largest = max(found.breakdown, key=lambda kind: found.breakdown[kind]) if found.breakdown else "unknown"
    return (
        f"{rate:.0f} of {found.ceiling_tflops:.0f} TFLOP/s (MFU {found.mfu:.1%} of a bf16 matrix product here); "
        f"at that rate it would be {ceiling:,.0f} tokens/s; most of the time goes into {largest}"
    )
