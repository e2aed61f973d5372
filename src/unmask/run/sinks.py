"""Where reports go: always metrics.jsonl, on request TensorBoard and Weights & Biases. A sink takes one report."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..configs import to_json
from ..files import atomic_write, named, standard
from ..mistakes import extra, fail
from ..training import Report
from .folder import METRICS, Run, logged

Sink = Callable[[Report], None]


@contextmanager
def metrics_file(run: Run, done: int) -> Iterator[Sink]:
    """One JSON line per step, flushed to disk at every checkpoint."""
    path = run.folder / METRICS
    _truncate(path, done)
    log = path.open("a", encoding="utf-8")

    def write(report: Report) -> None:
        with named(path):
            log.write(json.dumps(standard(_line(report)), allow_nan=False) + "\n")
            if report.saves:
                log.flush()

    try:
        yield write
    finally:
        with named(path):
            log.close()


@contextmanager
def tensorboard(run: Run, done: int) -> Iterator[Sink]:
    """Curves in the run's folder; what was logged after the checkpoint is purged."""
    extra("tensorboard", "log", "logging to TensorBoard")
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(str(run.folder / "tensorboard"), purge_step=done + 1)

    def write(report: Report) -> None:
        for name, value in _numbers(report).items():
            writer.add_scalar(name, value, report.step)

    try:
        yield write
    finally:
        writer.close()


@contextmanager
def wandb(run: Run, done: int) -> Iterator[Sink]:
    """A Weights & Biases run of the same name, which is resumed when this one is."""
    del done  # W&B itself drops steps that it has already seen
    client: Any = extra("wandb", "log", "logging to Weights & Biases")
    name = run.folder.resolve().name
    try:
        started = client.init(
            project="unmask", name=name, dir=str(run.folder), config=to_json(run.config), id=name, resume="allow"
        )
    except client.errors.Error as error:
        do = "run wandb login, set WANDB_MODE=offline, or leave --log wandb out"
        fail("cannot log to Weights & Biases", got=error, allowed="a valid account", do=do)
    try:
        yield lambda report: started.log(_numbers(report), step=report.step)
    finally:
        started.finish()


SINKS: dict[str, Callable[[Run, int], AbstractContextManager[Sink]]] = {"tensorboard": tensorboard, "wandb": wandb}


def check_sinks(names: tuple[str, ...]) -> None:
    """Say what is missing before anything is written."""
    for name in names:
        if name not in SINKS:
            fail("unknown log", got=name, allowed=", ".join(SINKS), do="choose one of them")
        extra(name, "log", f"logging to {name}")


def _numbers(report: Report) -> dict[str, float]:
    numbers = {
        "loss, bits per token": report.loss,
        "gradient norm": report.gradient,
        "rate": report.rate,
        "tokens per second": report.tokens / report.seconds,
    }
    if report.validation is not None:
        numbers |= {"held-out bits": report.validation.mean, "held-out error": report.validation.error}
    return numbers


def _line(report: Report) -> dict[str, object]:
    line: dict[str, object] = {"step": report.step, "loss": report.loss, "tokens": report.tokens}
    line |= {"gradient": report.gradient, "rate": report.rate}
    if report.validation is not None:
        line["validation"] = asdict(report.validation)
    return {**line, "seconds": round(report.seconds, 4), "time": round(time.time(), 2)}


def _truncate(path: Path, done: int) -> None:
    """Drop what was logged after the checkpoint: those steps are about to be repeated."""
    if not path.exists():
        return
    kept = [line for line, found in logged(path) if found["step"] <= done]
    with atomic_write(path, "w") as file:
        file.write("".join(f"{line}\n" for line in kept))
