"""The `unmask` command: parse, run, and turn a user error into one line and exit code 2."""

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from typing import Any, Protocol

import tyro

from unmask.mistakes import first_line, flag, require, said

from . import memory, terminal
from .compression_commands import Compress, Decompress
from .data_commands import DataInfo, Prepare
from .evaluation_commands import Check, Compare, Eval, Frontier, Score
from .help_commands import Completion
from .help_text import contents, wrapped
from .one_line import one_line
from .sampling_commands import BenchSample, Infill, Sample, Samplers
from .serving_commands import Serve
from .sharing_commands import Export, Info, Plot, Push
from .training_commands import Baselines, BenchTrain, Demo, Train


class Command(Protocol):
    """A parsed command."""

    def run(self) -> int | None:
        """Run it and return the exit code (None is 0); raise ValueError or OSError for what the user can correct."""


Commands = dict[str, Callable[..., Command]]
GROUPS: dict[str, Commands] = {
    "Start here": {"demo": Demo, "info": Info, "completion": Completion},
    "Data": {"data prepare": Prepare, "data info": DataInfo},
    "Train": {"train": Train, "plot": Plot, "baselines": Baselines, "bench train": BenchTrain},
    "Sample": {"sample": Sample, "infill": Infill, "samplers": Samplers, "bench sample": BenchSample},
    "Measure": {"eval": Eval, "compare": Compare, "score": Score, "frontier": Frontier, "check": Check},
    "Compress": {"compress": Compress, "decompress": Decompress},
    "Share and serve": {"serve": Serve, "export": Export, "push": Push},
}
COMMANDS: Commands = {name: command for group in GROUPS.values() for name, command in group.items()}
_USE = "--use"
_HELP = {"--help", "-h"}
_WITH_SETTINGS = ("train", "bench train", "bench sample")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    terminal.make_safe()
    try:
        code = _run(list(sys.argv[1:] if argv is None else argv))
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # the reader of the pipe has gone
        return terminal.leave_quietly()
    except ConnectionError as lost:  # every rank that lost the others reports it
        return terminal.complain(str(lost))
    except (ValueError, OSError) as mistake:  # the same on all ranks: only the first reports it
        return terminal.complain(said(mistake)) if os.environ.get("RANK", "0") == "0" else 2
    except RuntimeError as failure:
        if not _out_of_memory(failure):
            raise
        return terminal.complain(f"out of memory: {first_line(failure)}; process less at once")
    except KeyboardInterrupt as stop:
        print(next((word for word in stop.args if isinstance(word, str)), "stopped"), file=sys.stderr)
        return 130


def _out_of_memory(failure: RuntimeError) -> bool:
    """Whether memory ran out: PyTorch has an exception type for GPU memory, and only a message for host memory."""
    return type(failure).__name__ == "OutOfMemoryError" or "can't allocate memory" in str(failure)


def _run(argv: list[str]) -> int:
    argv = _with_parts(argv)
    if argv == ["--version"]:
        from unmask import __version__

        print(f"unmask {__version__}")
        return 0
    if not argv or argv[-1] in _HELP:
        named = [name for name in COMMANDS if name.startswith("".join(f"{word} " for word in argv[:-1]))]
        if len(named) > 1:  # all commands, or those of a group such as data
            print(contents(GROUPS, named))
            return 0
    for name in _WITH_SETTINGS:
        if argv[: len(name.split())] == name.split():
            return _run_with_settings(name, argv[len(name.split()) :])
    return _done(_parse(argv))


def _done(command: Command) -> int:
    if not isinstance(command, Serve):  # a server runs on, and would keep all the memory it ever needed
        memory.keep()
    return command.run() or 0


def _with_parts(argv: list[str]) -> list[str]:
    """Import the modules of all `--use MODULE`, wherever they stand, and return the command line without them."""
    left: list[str] = []
    words = iter(argv)
    for word in words:
        name, _, module = word.partition("=")
        if name != _USE:
            left.append(word)
            continue
        module = module or next(words, "")
        require(bool(module), "no module to use", got="--use alone", allowed="--use MODULE COMMAND …", do="name one")
        from unmask import extend

        extend.use(module)
    return left


def _run_with_settings(name: str, argv: list[str]) -> int:
    """The fields of a configuration are options of this command: parsed later, when the configuration is known."""
    flags = {flag(field.name) for field in fields(COMMANDS[name])}  # type: ignore[arg-type]
    own, settings = _split([word for word in argv if word not in _HELP], flags)
    if _HELP & set(argv):
        return _help_with_settings(name, own)
    return _done(replace(_parse([name, *own]), settings=tuple(settings)))  # type: ignore[type-var]


def _help_with_settings(name: str, own: list[str]) -> int:
    """The help of the command, then that of the fields which a named preset and method have."""
    with suppress(SystemExit):
        _parse([name, "--help"])
    from . import train

    try:
        command: Any = _parse([name, *own])
        chosen = command.preset, getattr(command, "method", None)
    except ValueError:  # a required word is missing: help that is asked for is given all the same
        chosen = None, None
    print(train.help_text(*chosen))
    return 0


def _split(argv: list[str], own: set[str]) -> tuple[list[str], list[str]]:
    """The words of a command line that belong to the command, and the other options with their values."""
    mine: list[str] = []
    others: list[str] = []
    target = mine
    for word in argv:
        if word.startswith("--"):
            target = mine if word.split("=")[0].replace("_", "-") in own else others
        elif word[:1] == "-" and word[1:2].isalpha():  # short ones are the command's; -3 is a value
            target = mine
        target.append(word)
    return mine, others


def _parse(argv: list[str]) -> Command:
    if " ".join(argv[:2]) in COMMANDS:  # "data prepare" is one command of two words
        argv = [" ".join(argv[:2]), *argv[2:]]
    with one_line(), wrapped():
        command: Command = tyro.extras.subcommand_cli_from_dict(
            COMMANDS,
            prog="unmask",
            description="Masked diffusion models on any discrete data: exact, fast, in one command.",
            args=argv,
            config=(tyro.conf.FlagCreatePairsOff,),
        )
    return command
