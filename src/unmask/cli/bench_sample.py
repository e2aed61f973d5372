"""`unmask bench sample`: how fast samples are drawn, beside a straightforward implementation of the same sampler."""

import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from unmask.configs import to_json
from unmask.files import check_files, write_json
from unmask.run.bench_sample import SampleSpeed, measure
from unmask.run.train import build_network

from . import measured, train
from .machine import print_json

if TYPE_CHECKING:
    from .sampling_commands import BenchSample

WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "ancestral": ("ancestral", {}),
    "first-hitting": ("first-hitting", {}),
    "first-hitting, 4 tokens per call": ("first-hitting", {"tokens_per_call": 4}),
    "threshold 0.9": ("threshold", {}),
}


def run(command: "BenchSample") -> int:
    """Measure, show and write."""
    check_files(command.out)
    console = Console(quiet=command.json)
    config, plan = train.configure(command.preset, None, None, None, command.settings)
    shape = train.shape_of(config, plan)
    device, name = measured.device()
    with device:
        network = build_network(config.network, config.training.seed).eval().requires_grad_(False)
    if config.training.compiled(device):
        network.compile_parts(dynamic=None)
    start = time.perf_counter()
    rows = measure(
        network, shape, command.count, command.sampling_steps, WAYS, device, command.repeats, not command.no_plain
    )
    document = measured.document(
        name,
        config.training.seed,
        start,
        config=to_json(config),
        shape=list(shape),
        samples=command.count,
        steps=command.sampling_steps,
        rows=[asdict(row) for row in rows],
    )
    if command.out is not None:
        write_json(command.out, document)
    if command.json:
        print_json(document)
    else:
        _show(rows, console, name, compared=not command.no_plain)
    return 0


def _show(rows: list[SampleSpeed], console: Console, device: str, compared: bool) -> None:
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), title=device, title_justify="left")
    table.add_column("sampler")
    for column in ("seconds", "tokens/s", "calls", "peak GiB", "speed-up")[: 5 if compared else 4]:
        table.add_column(column, justify="right")
    for row in rows:
        peak = "" if row.peak_gib is None else f"{row.peak_gib:.1f}"
        cells = [row.way, f"{row.seconds:.2f}", f"{row.tokens_per_s:,.0f}", f"{row.calls_per_sample:.1f}", peak]
        table.add_row(*cells, *([f"{rows[-1].seconds / row.seconds:.1f}"] if compared else []))
    console.print(table)
