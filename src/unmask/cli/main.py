"""The `unmask` command: parse, run, and turn a user's mistake into one line and exit code 2."""

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Literal, Protocol

import tyro

from .evaluation_commands import Compare, Eval, Frontier, Score
from .flags import optional
from .one_line import one_line
from .sampling_commands import BenchSample, Infill, Sample, Samplers
from .serving_commands import Serve
from .sharing_commands import Export, Info, Plot, Push


class Command(Protocol):
    """A parsed command."""

    def run(self) -> int | None:
        """Do it and return the exit code (None is 0); raise ValueError or OSError for what the user can mend."""


@dataclass(frozen=True)
class Demo:
    """See it at work: a model writes, fills gaps, scores, draws, and one of your own is trained. Three minutes.

    Examples:
      unmask demo
      unmask demo --text my.txt --skip exact
    """

    out: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("unmask-demo")
    """Folder for the run and the pictures; with the same folder a stopped demo goes on."""
    text: Annotated[Path | None, optional("FILE")] = None
    """Text of yours: the shipped model goes on learning from it. Without it, one learns Shakespeare from nothing."""
    skip: Annotated[tuple[str, ...], tyro.conf.arg(metavar="PART", help_behavior_hint="")] = ()
    """Parts to leave out: write, fill, score, digits, train, exact."""
    steps: int = 1000
    """Training steps; at most 200 are made on a text of yours."""
    seed: int = 0
    """All randomness of the demo follows from this number."""
    json: bool = False
    """Print the figures as JSON and nothing else."""

    def run(self) -> int:
        """Imported here so that `unmask --help` does not wait for torch."""
        from . import demo

        return demo.show(self.out, self.seed, self.steps, self.text, self.skip, self.json)


@dataclass(frozen=True)
class Prepare:
    """Turn any discrete data into token shards: text, tables, FASTA, lines, arrays, images, known data sets.

    Stopped or killed, the same command goes on. Examples:
      unmask data prepare book.txt --out data/book
      unmask data prepare molecules.csv --column SMILES --out data/molecules
      unmask data prepare text8 --out data/text8
    """

    source: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="SOURCE")]
    """A path, a folder, a pattern, hub:ID, or text8, mnist, cifar10, openwebtext, fineweb-edu."""
    out: Annotated[Path, tyro.conf.arg(metavar="DIR")]
    """A new folder for the prepared data."""
    kind: Annotated[str | None, optional("NAME")] = None
    """text, lines, fasta, jsonl, csv, parquet, array, images, mnist, cifar10, imagenet64 or text8; else guessed."""
    column: Annotated[str | None, optional("NAME")] = None
    """The field, column or array that holds the data."""
    label_column: Annotated[str | None, optional("NAME")] = None
    """The field, column or array that holds the class."""
    vocabulary: Annotated[str | None, optional("NAME")] = None
    """characters, alphabet:SYMBOLS, bytes, pixels, integers:SIZE, gpt2, bpe:SIZE, a tokenizer.json, or a model's."""
    length: Annotated[int | None, optional("N")] = None
    """Tokens per row; longer documents are left out of rows. Default: the longest, or 256 for packed text."""
    layout: Annotated[Literal["packed", "rows"] | None, optional("{packed,rows}")] = None
    """Documents packed end to end, or one per row; the source decides if left out."""
    valid: float = 0.05
    """Share held out for validation, where the source has no splits."""
    test: float = 0.05
    """Share held out for testing, where the source has no splits."""
    image_size: Annotated[int | None, optional("SIDE")] = None
    """Crop images to a square and resize them to this side."""
    grey: bool = False
    """Read images without colour."""
    seed: int = 0
    """Decides which documents are held out."""
    workers: Annotated[int | None, optional("N")] = None
    """Processes; all cores if left out. The result does not depend on it."""
    json: bool = False
    """Print the manifest as JSON and nothing else."""

    def run(self) -> None:
        from unmask.data import Plan, Reading

        from . import data

        vocabulary = data.vocabulary_of(self.vocabulary)
        reading = Reading(self.column, self.label_column, self.image_size, self.grey)
        plan = Plan(
            self.source,
            self.kind,
            reading,
            vocabulary,
            self.length,
            None if self.layout is None else self.layout == "rows",
            self.valid,
            self.test,
            self.seed,
        )
        data.run_prepare(plan, self.out, self.workers, self.json)


@dataclass(frozen=True)
class DataInfo:
    """Show what a folder of prepared data holds.

    Example: unmask data info data/book
    """

    folder: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="DIR")]
    """A folder made by unmask data prepare."""
    examples: int = 3
    """How many rows to show."""
    json: bool = False
    """Print the manifest as JSON and nothing else."""

    def run(self) -> None:
        from . import data

        data.show_info(self.folder, self.examples, self.json)


@dataclass(frozen=True)
class Train:
    """Train a model, by a preset or on prepared data. Stopped or killed, the same command goes on.

    Every field of the configuration is a flag too: --steps 500 --layers 6 --optimizer muon. Examples:
      unmask train characters --out runs/shakespeare
      unmask train --data data/book --out runs/book --size 10m --steps 500
      unmask train --start demo --data data/letters --out runs/letters
      unmask train text8-genmd4 --out runs/text8 --dry-run
    """

    preset: Annotated[tyro.conf.Positional[str | None], optional("PRESET")] = None
    """A known setting, data included; see the list below. Without one, --data decides."""
    data: Annotated[Path | None, optional("DIR")] = None
    """A folder made by unmask data prepare; a preset prepares its own if left out."""
    out: Annotated[Path | None, optional("DIR")] = None
    """The run's folder: configuration, metrics, samples, checkpoints."""
    size: Annotated[str | None, optional("NAME")] = None
    """Of the network, without a preset: 1m, 3m, 10m, 30m, 85m, 300m, 700m or 1b parameters. Default: 1m."""
    start: Annotated[str | None, optional("MODEL")] = None
    """Begin with the weights of a model, and with its network and method; the data must have its vocabulary."""
    method: Annotated[str | None, optional("NAME")] = None
    """md4, genmd4, which learns a schedule for every token, or one of unmask baselines. Default: the preset's, or
    md4."""
    log: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME", help_behavior_hint="")] = ()
    """tensorboard, wandb or both, besides metrics.jsonl."""
    parallel: Annotated[Literal["ddp", "fsdp"] | None, optional("NAME")] = None
    """Under torchrun: ddp (every rank holds the model; the default) or fsdp (every rank holds a part)."""
    dry_run: bool = False
    """Print the configuration and its cost, and train nothing."""
    json: bool = False
    """Print the result as JSON and nothing else."""
    settings: tyro.conf.Suppress[tuple[str, ...]] = ()
    """Fields of the configuration, as they were given."""

    def run(self) -> int:
        from unmask.mistakes import fail

        from . import train

        config, plan = train.configure(self.preset, self.data, self.size, self.method, self.settings, self.start)
        if self.out is None and not self.dry_run:
            fail("no folder for the run", got="no --out", allowed="a new folder, or the run's", do="add --out DIR")
        return train.run(config, plan, self.out or Path(), self.log, self.parallel, self.json, self.dry_run)


@dataclass(frozen=True)
class BenchTrain:
    """Measure how fast a configuration trains here, on made-up data: tokens/s, memory, and where the time goes.

    Every field of the configuration is a flag too, as with train. Examples:
      unmask bench train characters --batch-size 32
      unmask bench train text8 --masks exact-k --shift 0 --out before.json
      unmask bench train text8 --masks exact-k --shift 0 --mlp relu2 --compare before.json
    """

    preset: Annotated[tyro.conf.Positional[str | None], optional("PRESET")] = None
    """A known setting; see unmask train --help. Without one, --data decides."""
    data: Annotated[Path | None, optional("DIR")] = None
    """A folder made by unmask data prepare, for its shape and vocabulary only."""
    size: Annotated[str | None, optional("NAME")] = None
    """Of the network, without a preset: 1m, 3m, 10m, 30m, 85m, 300m, 700m or 1b parameters."""
    method: Annotated[str | None, optional("NAME")] = None
    """md4, genmd4 or one of unmask baselines."""
    windows: int = 5
    """How many times to measure."""
    window: int = 10
    """Steps each time."""
    out: Annotated[Path | None, optional("FILE")] = None
    """Write the result as JSON."""
    compare: Annotated[Path | None, optional("FILE")] = None
    """A result to compare with."""
    json: bool = False
    """Print the result as JSON and nothing else."""
    settings: tyro.conf.Suppress[tuple[str, ...]] = ()
    """Fields of the configuration, as they were given."""

    def run(self) -> None:
        from . import bench, train

        config, plan = train.configure(self.preset, self.data, self.size, self.method, self.settings)
        shape = train.shape_of(config, plan)
        bench.run(config, shape, self.windows, self.window, self.out, self.compare, self.json)


@dataclass(frozen=True)
class Baselines:
    """List the methods beside MD4 and GenMD4: what differs, whose they are, bound or not, what a step costs.

    Train one by its name: unmask train text8 --method sedd --out runs/sedd
    """

    json: bool = False
    """Print the list as JSON and nothing else."""

    def run(self) -> int:
        from . import baselines

        return baselines.run(self.json)


COMMANDS: dict[str, Callable[..., Command]] = {
    "demo": Demo,
    "data prepare": Prepare,
    "data info": DataInfo,
    "train": Train,
    "sample": Sample,
    "infill": Infill,
    "samplers": Samplers,
    "eval": Eval,
    "compare": Compare,
    "score": Score,
    "frontier": Frontier,
    "serve": Serve,
    "info": Info,
    "plot": Plot,
    "export": Export,
    "push": Push,
    "baselines": Baselines,
    "bench train": BenchTrain,
    "bench sample": BenchSample,
}
_WITH_SETTINGS = ("train", "bench train", "bench sample")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    argv = list(sys.argv[1:] if argv is None else argv)
    if argv == ["--version"]:
        from unmask import __version__

        print(f"unmask {__version__}")
        return 0
    try:
        for name in _WITH_SETTINGS:
            if argv[: len(name.split())] == name.split():
                return _run_with_settings(name, argv[len(name.split()) :])
        return _parse(argv or ["--help"]).run() or 0
    except ConnectionError as lost:  # whoever lost the others says so
        return _complain(str(lost))
    except (ValueError, OSError) as mistake:  # the same for all ranks: the first one speaks
        return _complain(str(mistake)) if os.environ.get("RANK", "0") == "0" else 2
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130


def _run_with_settings(name: str, argv: list[str]) -> int:
    """The fields of a configuration are flags of this command: they wait until it is known which configuration."""
    if {"--help", "-h"} & set(argv):
        try:
            _parse([name, "--help"])
        except SystemExit:
            from . import train

            print(train.help_text())
            return 0
    flags = {f"--{field.name.replace('_', '-')}" for field in fields(COMMANDS[name])}  # type: ignore[arg-type]
    own, settings = _split(argv, flags)
    command = replace(_parse([name, *own]), settings=tuple(settings))  # type: ignore[type-var]
    return command.run() or 0


def _split(argv: list[str], own: set[str]) -> tuple[list[str], list[str]]:
    """A command line's own words, and the flags it does not know with their values."""
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
    with one_line():
        command: Command = tyro.extras.subcommand_cli_from_dict(
            COMMANDS,
            prog="unmask",
            description="Masked diffusion models on any discrete data: exact, fast, in one command.",
            args=argv,
            config=(tyro.conf.FlagCreatePairsOff,),
        )
    return command


def _complain(message: str) -> int:
    colour = sys.stderr.isatty()
    print(f"\033[31m{message}\033[0m" if colour else message, file=sys.stderr)
    return 2
