"""The `unmask` command: parse, run, and turn a user's mistake into one line and exit code 2."""

import contextlib
import io
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol

import tyro


def _option(metavar: str) -> Any:
    """An option that may be left out: its help says what then happens, so tyro need not add "(default: None)"."""
    return tyro.conf.arg(metavar=metavar, help_behavior_hint="")


class Command(Protocol):
    """A parsed command."""

    def run(self) -> int | None:
        """Do it and return the exit code (None is 0); raise ValueError or OSError for what the user can mend."""


@dataclass(frozen=True)
class Demo:
    """See the exact core at work: tight bounds, the schedules, and a draw that float32 gets wrong.

    Example: unmask demo --out pictures
    """

    out: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("unmask-demo")
    """Folder for the picture of the schedules."""
    seed: int = 0
    """All randomness of the demo follows from this number."""
    json: bool = False
    """Print the figures as JSON and nothing else."""

    def run(self) -> None:
        """Imported here so that `unmask --help` does not wait for torch."""
        from . import demo

        demo.show(out=self.out, seed=self.seed, as_json=self.json)


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
    kind: Annotated[str | None, _option("NAME")] = None
    """text, lines, fasta, jsonl, csv, parquet, array, images, mnist, cifar10, imagenet64 or text8; else guessed."""
    column: Annotated[str | None, _option("NAME")] = None
    """The field, column or array that holds the data."""
    label_column: Annotated[str | None, _option("NAME")] = None
    """The field, column or array that holds the class."""
    vocabulary: Annotated[str | None, _option("NAME")] = None
    """characters, alphabet:SYMBOLS, bytes, pixels, integers:SIZE, gpt2, bpe:SIZE, or a tokenizer.json."""
    length: Annotated[int | None, _option("N")] = None
    """Tokens per row; longer documents are left out of rows. Default: the longest, or 256 for packed text."""
    layout: Annotated[Literal["packed", "rows"] | None, _option("{packed,rows}")] = None
    """Documents packed end to end, or one per row; the source decides if left out."""
    valid: float = 0.05
    """Share held out for validation, where the source has no splits."""
    test: float = 0.05
    """Share held out for testing, where the source has no splits."""
    image_size: Annotated[int | None, _option("SIDE")] = None
    """Crop images to a square and resize them to this side."""
    grey: bool = False
    """Read images without colour."""
    seed: int = 0
    """Decides which documents are held out."""
    workers: Annotated[int | None, _option("N")] = None
    """Processes; all cores if left out. The result does not depend on it."""
    json: bool = False
    """Print the manifest as JSON and nothing else."""

    def run(self) -> None:
        from unmask.data import Plan, Reading

        from . import data

        reading = Reading(self.column, self.label_column, self.image_size, self.grey)
        plan = Plan(
            self.source,
            self.kind,
            reading,
            self.vocabulary,
            self.length,
            None if self.layout is None else self.layout == "rows",
            self.valid,
            self.test,
            self.seed,
        )
        data.run_prepare(plan, self.out, self.workers, self.json)


@dataclass(frozen=True)
class Info:
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
    """Train a model on prepared data. Stopped or killed, the same command goes on.

    Example: unmask train --data data/book --out runs/book --steps 500
    """

    data: Annotated[Path, tyro.conf.arg(metavar="DIR")]
    """A folder made by unmask data prepare."""
    out: Annotated[Path, tyro.conf.arg(metavar="DIR")]
    """The run's folder: configuration, metrics, checkpoints."""
    steps: int = 2000
    """Updates of the weights."""
    batch_size: int = 32
    """Sequences per update."""
    micro_batch: Annotated[int | None, _option("N")] = None
    """Sequences at once; fewer need less memory and change nothing else."""
    rate: float = 1e-3
    """Peak learning rate."""
    optimizer: Literal["adamw", "muon"] = "adamw"
    """muon treats the hidden matrices, adamw the rest."""
    schedule: Literal["linear", "cosine", "geometric"] = "linear"
    """Masking schedule."""
    learned: bool = False
    """GenMD4: learn a schedule for every token."""
    weighting: Literal["elbo", "ce"] = "elbo"
    """Train on the bound, or on plain cross-entropy. The bound is what is reported either way."""
    save_every: int = 200
    """Steps between checkpoints."""
    validate_every: int = 200
    """Steps between held-out bounds."""
    seed: int = 0
    """Weights, order of the data and all noise follow from this number."""
    dry_run: bool = False
    """Print the configuration and its cost, and train nothing."""
    json: bool = False
    """Print the result as JSON and nothing else."""

    def run(self) -> int:
        from unmask.data import Dataset
        from unmask.run import MethodConfig, default_config
        from unmask.training import OptimizerConfig, RateConfig
        from unmask.training.loop import TrainingConfig

        from . import train

        training = TrainingConfig(
            steps=self.steps,
            batch_size=self.batch_size,
            micro_batch=self.micro_batch,
            seed=self.seed,
            optimizer=OptimizerConfig(self.optimizer, rate=self.rate),
            rate=RateConfig(warmup=min(100, max(1, self.steps // 10))),
            weighting=self.weighting,
            save_every=self.save_every,
            validate_every=self.validate_every,
        )
        config = default_config(str(self.data), MethodConfig(self.schedule, learned=self.learned), training)
        shape = tuple(Dataset(self.data).manifest.shape)
        return train.run(config, self.out, shape, self.json, self.dry_run)


COMMANDS: dict[str, Callable[..., Command]] = {
    "demo": Demo,
    "data prepare": Prepare,
    "data info": Info,
    "train": Train,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    argv = list(sys.argv[1:] if argv is None else argv)
    if argv == ["--version"]:
        from unmask import __version__

        print(f"unmask {__version__}")
        return 0
    try:
        return _parse(argv or ["--help"]).run() or 0
    except (ValueError, OSError) as mistake:
        return _complain(str(mistake))
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130


def _parse(argv: list[str]) -> Command:
    """tyro explains a bad command line in a box of several lines; say it in one."""
    said = io.StringIO()
    if " ".join(argv[:2]) in COMMANDS:  # "data prepare" is one command of two words
        argv = [" ".join(argv[:2]), *argv[2:]]
    try:
        with contextlib.redirect_stderr(said):
            command: Command = tyro.extras.subcommand_cli_from_dict(
                COMMANDS,
                prog="unmask",
                description="Masked diffusion models on any discrete data: exact, fast, in one command.",
                args=argv,
                config=(tyro.conf.FlagCreatePairsOff,),
            )
            return command
    except SystemExit as stop:
        if stop.code == 0:  # --help
            raise
        raise ValueError(_unboxed(said.getvalue())) from None


def _unboxed(text: str) -> str:
    """The sections of a box on one line, its title, rules and closing hint left out."""
    sections = [""]
    for line in text.splitlines():
        line = line.strip("│| ")
        if line.startswith(("╭", "╰", "─")):
            sections.append("")
        else:
            sections[-1] += f" {line}"
    said = (re.sub(r"\s+", " ", section).strip() for section in sections)
    return "; ".join(
        [part for part in said if part and not part.startswith("For full helptext")] + ["see unmask --help"]
    )


def _complain(message: str) -> int:
    colour = sys.stderr.isatty()
    print(f"\033[31m{message}\033[0m" if colour else message, file=sys.stderr)
    return 2
