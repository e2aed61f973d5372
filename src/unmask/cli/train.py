"""`unmask train`: the configuration from a preset or the data, fields set one by one, progress, and a clean exit."""

import contextlib
import io
import json
import math
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, get_args

import torch
import tyro
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from unmask import presets
from unmask.configs import to_json
from unmask.core.device import best_device
from unmask.data import Dataset, Plan
from unmask.data.manifest import FILE
from unmask.evaluation.loss import chunk_size
from unmask.files import check_folder
from unmask.mistakes import fail, first_line, nearest, require
from unmask.networks import TransformerConfig, cost
from unmask.run import Facts, Run, RunConfig, adapted_to_data, default_config, finetuning_config, train, with_method
from unmask.run.config import METHODS, NetworkConfig, method_name
from unmask.run.folder import CONFIG
from unmask.run.previews import is_picture, texts
from unmask.run.stop import stop_requested
from unmask.run.train import held_out
from unmask.training import Report
from unmask.training.world import from_environment

from . import data as data_command
from .machine import print_json
from .one_line import one_line
from .smooth import Smooth

STOPPED = 130
_FIELDS = (tyro.conf.OmitArgPrefixes, tyro.conf.AvoidSubcommands, tyro.conf.FlagCreatePairsOff)


def configure(
    preset: str | None,
    data: Path | None,
    size: str | None,
    method: str | None,
    settings: tuple[str, ...],
    start: str | None = None,
) -> tuple[RunConfig, Plan | None]:
    """The requested configuration, and how to prepare its data if the data belongs to a preset."""
    plan = None
    if start is not None:
        if data is None or preset is not None or size is not None or method is not None:
            given = " ".join(f"{word}" for word in (preset, size, method) if word) or "no --data"
            fail("--start sets everything but the data", got=given, allowed="--data DIR only", do="leave out the rest")
        return apply(finetuning_config(start, str(data)), settings), None
    if preset is None and data is None:
        fail("nothing to train on", got="no preset, no --data", allowed="one of them", do="see unmask train --help")
    if preset is None:
        config = default_config(str(data), size or "1m", method or "md4")
    else:
        if size is not None:
            fail("a preset sets the size", got=f"--size {size}", allowed="--layers, --heads, --width", do="use those")
        found = presets.find(preset)
        config, plan = (found.config, found.plan) if data is None else (adapted_to_data(found.config, str(data)), None)
    if method is not None:
        config = with_method(config, method)
    return apply(config, settings), plan


def begun(out: Path | None) -> RunConfig | None:
    """The configuration of the run in a folder, if there is one, with the present location of its data: --out alone
    resumes a run.
    """
    if out is None or not (out / CONFIG).exists():
        return None
    run = Run.open(out)
    moved = Path(run.own_data) != Path(run.config.data)
    return replace(run.config, data=run.own_data) if moved else run.config


def apply(config: RunConfig, settings: tuple[str, ...]) -> RunConfig:
    """Set fields: ("--steps", "500", "--layers", "6")."""
    known = flags(config)
    _check_names(config)
    for word in settings:
        name = word.split("=")[0].replace("_", "-")
        if name.startswith("--") and name not in known:
            _check_owner(name, config)
            do = nearest(name, [*known, *_OWN_FLAGS], "unmask train --help lists them")
            fail("unknown field", got=name, allowed="a field of the configuration", do=do)
    with one_line():
        arguments = list(settings)
        changed: RunConfig = tyro.cli(RunConfig, default=config, args=arguments, prog="unmask train", config=_FIELDS)
    return changed


def _check_names(config: RunConfig) -> None:
    """Fields are set by their bare names, so a user's own part must not reuse the name of another field."""
    named = [name.replace("--no-", "--") for name in flags(config)]
    named += set(_OWN_FLAGS) - {f"--{entry.name}" for entry in fields(config)}
    twice = sorted({name for name in named if named.count(name) > 1})
    parts = f"{type(config.network).__name__}, {type(config.method).__name__} and what all runs have"
    do = "rename the field of your part"
    require(not twice, "two fields have one name", got=", ".join(twice), allowed=f"different ones in {parts}", do=do)


def _check_owner(name: str, config: RunConfig) -> None:
    """Say that a switch is already set this way, or that the field belongs to another network or method."""
    switch = name.replace("--no-", "--") if name.startswith("--no-") else name.replace("--", "--no-", 1)
    if switch in flags(config):
        fail("nothing to switch", got=name, allowed=switch, do=f"leave {name} out: it is already set this way")
    if any(name in flags(kind(2)) for kind in get_args(NetworkConfig)):
        what = f"{type(config.network).__name__.removesuffix('Config')}s, which this data gets, have no {name}"
        do = "leave it out, or choose a preset with another network"
        fail(what, got=name, allowed=", ".join(flags(config.network)), do=do)
    owners = [method for method, kind in METHODS.items() if name in flags(kind())]
    if owners:
        method = method_name(config)
        do = f"leave it out, or use --method {' or '.join(owners)}"
        fail(f"{method} has no {name}", got=name, allowed=f"a field of {method}", do=do)


_OWN_FLAGS = ("--data", "--out", "--size", "--start", "--method", "--log", "--parallel", "--dry-run", "--json")


def flags(config: Any) -> list[str]:
    """The options that set the fields of a configuration; a switch that is on is turned off by --no-…"""
    found = []
    for entry in fields(config):
        value = getattr(config, entry.name)
        if is_dataclass(value):
            found += flags(value)
        else:
            found.append(f"--{'no-' if value is True else ''}{entry.name.replace('_', '-')}")
    return found


def help_text(preset: str | None, method: str | None) -> str:
    """Presets, and the fields of a configuration with its defaults: the last part of `unmask train --help`."""
    lines = [f"  {name:26} {make().summary}" for name, make in presets.PRESETS.items()]
    config = RunConfig("DIR", TransformerConfig(27)) if preset is None else presets.find(preset).config
    config = config if method is None else with_method(config, method)
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.suppress(SystemExit):
        tyro.cli(RunConfig, default=config, args=["--help"], prog="unmask train", config=_FIELDS)
    settings = said.getvalue().split("\n\n", 1)[-1]
    whose = f"{preset or 'a text model; PRESET --help lists those of a preset'}"
    return "presets:\n" + "\n".join(lines) + f"\n\nfields of the configuration ({whose}):\n" + settings


def run(
    config: RunConfig,
    plan: Plan | None,
    out: Path,
    log: tuple[str, ...],
    parallel: str | None,
    as_json: bool,
    dry_run: bool,
) -> int:
    """Train with progress; returns the exit code. With several ranks, only the first one prints."""
    console = Console(quiet=as_json or not from_environment().first)
    if dry_run:
        return _show_dry_run(config, shape_of(config, plan), as_json)
    check_folder(out)
    if plan is not None and not (Path(config.data) / FILE).exists():
        _prepare(plan, Path(config.data), console)
    console.print(describe(config, Facts.of(Dataset(config.data), config.length).shape), highlight=False)
    stopped = train_shown(config, out, log, console, parallel)
    if stopped is not None:
        return stopped
    if as_json and from_environment().first:
        print_json({"run": str(out), "steps": config.training.steps, "validation": _last_validation(out)})
    elif not as_json:
        console.print(f"done: {out}", highlight=False)
    return 0


def _show_dry_run(config: RunConfig, shape: tuple[int, ...], as_json: bool) -> int:
    """Print what would be trained, and what it costs."""
    if not from_environment().first:
        return 0
    if as_json:
        print_json({"config": to_json(config), "cost": _cost(config, shape)})
        return 0
    Console().print(describe(config, shape), highlight=False)
    print(json.dumps(to_json(config), indent=1))
    return 0


def _prepare(plan: Plan, out: Path, console: Console) -> None:
    """The first rank prepares the data and the others wait for it; if it fails, torchrun ends them."""
    if from_environment().first:
        console.print(f"preparing {plan.source} in {out}", highlight=False)
        data_command.prepare_with_bar(plan, out, None, console)
    while not (out / FILE).exists():
        time.sleep(0.2)


def shape_of(config: RunConfig, plan: Plan | None) -> tuple[int, ...]:
    """Shape of a row: as the data was prepared, or as the preset will prepare it."""
    if plan is None or (Path(config.data) / FILE).exists():
        return Facts.of(Dataset(config.data), config.length).shape
    found = next(p for p in (make() for make in presets.PRESETS.values()) if p.plan == plan)
    return (config.length,) if config.length else found.shape


def describe(config: RunConfig, shape: tuple[int, ...]) -> str:
    """Size and cost in one line."""
    found, name = _cost(config, shape), type(config.network).__name__.removesuffix("Config")
    return (
        f"{type(config.method).__name__.removesuffix('Config')}, {name}, {found['parameters'] / 1e6:.2f} M parameters, "
        f"{found['flops_per_token'] / 1e6:.1f} MFLOP per token and step, "
        f"at most about {found['memory_bytes'] / 2**30:.2f} GiB"
    )


def _cost(config: RunConfig, shape: tuple[int, ...]) -> dict[str, float]:
    """The size of the network, and what it takes on each device."""
    found, training = cost(config.network.build, shape), config.training
    at_once, mixed = training.at_once(from_environment().size), training.mixed(best_device())
    memory = found.memory(at_once, mixed=mixed, chunk=chunk_size(found.vocab_size))
    return {"parameters": found.parameters, "flops_per_token": found.flops_per_token, "memory_bytes": memory}


def train_shown(
    config: RunConfig, out: Path, log: tuple[str, ...], console: Console, parallel: str | None = None
) -> int | None:
    """Train with progress; returns None when training is done, the exit code when it was stopped."""
    _, note = held_out(Dataset(config.data), config.length)
    if note is not None:
        console.print(note, highlight=False, soft_wrap=True)
    last: Report | None = None
    with (
        _troubles(config),
        stop_requested() as stopped,
        _bar(console, config.training.steps, Running(out)) as show,
        closing(train(config, out, log=log, parallel=parallel, stop_asked=stopped)) as reports,
    ):
        for last in reports:
            show(last)
            _tell(last, out, console)
            if last.stop_asked:
                break
    if last is None or not last.stop_asked:
        return None
    if from_environment().first:
        Console(stderr=True).print(f"stopped after step {last.step} and saved; run the same command again to resume")
    return STOPPED


@contextmanager
def _troubles(config: RunConfig) -> Iterator[None]:
    """Report a failure of the device or of another rank in one line."""
    world, training = from_environment(), config.training
    micro = training.at_once(world.size)
    try:
        yield
    except torch.OutOfMemoryError:
        smaller = f"--micro-batch {micro // 2} or --recompute" if micro > 1 else "--recompute or a smaller network"
        fail("the device is out of memory", got=f"{micro} sequences at once", allowed="fewer", do=f"try {smaller}")
    except RuntimeError as error:
        if world.size == 1:
            raise
        again = "run the same command again to resume"
        raise ConnectionError(f"rank {world.rank}: another rank is gone ({first_line(error)}); {again}") from None


def _tell(report: Report, out: Path, console: Console) -> None:
    """Print the held-out bound and samples, when there are new ones."""
    if report.validation is not None:
        console.print(f"step {report.step}: held out {report.validation}", highlight=False)
    if report.preview is None:
        return
    run = Run(out)
    if is_picture(run.vocabulary, run.facts.shape):
        console.print(f"  samples: {out}/samples/step-{report.step:08d}.png", highlight=False)
    else:
        for text in texts(report.preview, run.vocabulary)[:2]:
            shown = " ".join(text.split())[: max(40, console.width - 4)]
            console.print(f"  {shown}", style="dim", markup=False, highlight=False, soft_wrap=True)


def _last_validation(out: Path) -> Any:
    found = [line["validation"] for line in Run(out).metrics() if "validation" in line]
    return found[-1] if found else None


class Running:
    """The recent loss and speed, as text; for the loss, steps before an interruption count too."""

    def __init__(self, out: Path) -> None:
        self._out = out
        self._loss: Smooth | None = None
        self._speed = Smooth()

    def take(self, report: Report) -> None:
        """Include a step."""
        if self._loss is None:
            self._loss = Smooth(line["loss"] for line in Run(self._out).metrics() if line["step"] < report.step)
        self._loss.take(report.loss)
        self._speed.take(report.tokens / report.seconds)

    def __str__(self) -> str:
        if self._loss is None:
            return "training"
        error = "" if math.isnan(self._loss.error) else f" ± {self._loss.error:.3f}"
        return f"loss {self._loss.mean:.3f}{error} bits/token, {self._speed.mean:,.0f} tokens/s"


@contextmanager
def _bar(console: Console, steps: int, running: Running) -> Iterator[Callable[[Report], None]]:
    """A progress bar in a terminal, an occasional line elsewhere."""
    if not console.is_terminal:
        yield _lines(console, steps, running)
        return
    columns = (
        *(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()),
        *(TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn()),
    )
    with Progress(*columns, console=console) as bar:
        task = bar.add_task(str(running), total=steps)

        def show(report: Report) -> None:
            running.take(report)
            bar.update(task, completed=report.step, description=str(running))

        yield show


def _lines(console: Console, steps: int, running: Running) -> Callable[[Report], None]:
    every = max(1, steps // 10)

    def show(report: Report) -> None:
        running.take(report)
        if report.step % every == 0:
            console.print(f"step {report.step}/{steps}: {running}", highlight=False)

    return show
