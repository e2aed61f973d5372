"""`unmask train`: progress, and a clean end on Ctrl-C or SIGTERM."""

import json
import math
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from unmask.configs import to_json
from unmask.networks import cost
from unmask.run import RunConfig, build_network, train
from unmask.training.loop import Report

STOPPED = 130


def run(config: RunConfig, out: Path, shape: tuple[int, ...], as_json: bool, dry_run: bool) -> int:
    """Train and show it; returns the exit code."""
    console = Console(quiet=as_json)
    found = cost(lambda: build_network(config.network, 0), shape)
    gib = found.memory(config.training.batch_size, mixed=torch.cuda.is_available()) / 2**30
    console.print(
        f"{type(config.network).__name__.removesuffix('Config')}, {found.parameters / 1e6:.2f} M parameters, "
        f"{found.flops_per_token / 1e6:.1f} MFLOP per token, about {gib:.2f} GiB",
        highlight=False,
    )
    if dry_run:
        print(json.dumps(to_json(config), indent=1))
        return 0
    last: Report | None = None
    with _stop_requested() as stopped, _bar(console, config.training.steps) as show:
        reports = train(config, out)
        for last in reports:
            show(last)
            if last.validation is not None:
                bits = last.validation
                text = f"step {last.step}: held out {bits.mean:.4f} ± {bits.error:.4f} bits per token"
                console.print(text, highlight=False)
            if stopped():
                reports.close()
                Console(stderr=True).print(f"stopped after step {last.step} and saved; the same command goes on")
                return STOPPED
    if as_json:
        bits_json = {"mean": last.validation.mean, "error": last.validation.error} if last and last.validation else None
        print(json.dumps({"run": str(out), "steps": config.training.steps, "validation": bits_json}))
    else:
        console.print(f"done: {out}", highlight=False)
    return 0


@contextmanager
def _stop_requested() -> Iterator[Callable[[], bool]]:
    """Ctrl-C and SIGTERM ask for a stop after the present step; a second one stops at once."""
    asked = False

    def ask(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        del frame
        if asked:
            raise KeyboardInterrupt(number)
        asked = True

    before = {s: signal.signal(s, ask) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _bar(console: Console, steps: int) -> Iterator[Callable[[Report], None]]:
    """A progress bar in a terminal, a line now and then elsewhere."""
    if not console.is_terminal:
        yield _lines(console, steps)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("training", total=steps)
        smooth = _Smooth()

        def show(report: Report) -> None:
            mean, rate = smooth(report)
            bar.update(task, completed=report.step, description=f"{mean:.3f} bits/token, {rate:,.0f} tokens/s")

        yield show


def _lines(console: Console, steps: int) -> Callable[[Report], None]:
    smooth, every = _Smooth(), max(1, steps // 10)

    def show(report: Report) -> None:
        mean, rate = smooth(report)
        if report.step % every == 0:
            text = f"step {report.step}/{steps}: {mean:.3f} bits per token, {rate:,.0f} tokens/s"
            console.print(text, highlight=False)

    return show


class _Smooth:
    """Moving averages of the loss and of the speed."""

    def __init__(self) -> None:
        self._loss = self._rate = math.nan

    def __call__(self, report: Report) -> tuple[float, float]:
        rate = report.tokens / report.seconds
        first = math.isnan(self._loss)
        self._loss = report.loss if first else 0.95 * self._loss + 0.05 * report.loss
        self._rate = rate if first else 0.9 * self._rate + 0.1 * rate
        return self._loss, self._rate
