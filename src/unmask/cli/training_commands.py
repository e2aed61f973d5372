"""The commands that train: demo, train, baselines, bench train."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from .flags import optional


@dataclass(frozen=True)
class Demo:
    """Take a tour: a model writes, fills gaps, scores and draws.

    Then a model of your own is trained. The tour takes three minutes; every part can be skipped. Examples:
      unmask demo
      unmask demo --text my.txt --skip exact
    """

    out: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("unmask-demo")
    """Folder for the run and the images; an interrupted demo resumes in the same folder."""
    text: Annotated[Path | None, optional("FILE")] = None
    """Your own text, to fine-tune the shipped model on. Default: train a model on Shakespeare from scratch."""
    skip: Annotated[tuple[str, ...], tyro.conf.arg(metavar="PART", help_behavior_hint="")] = ()
    """Parts to leave out: write, fill, score, digits, train, exact."""
    steps: int = 1000
    """Training steps; at most 200 with --text."""
    seed: int = 0
    """Random seed of the whole demo."""
    json: bool = False
    """Print the results as JSON and nothing else."""

    def run(self) -> int:
        """Imported here so that `unmask --help` does not wait for torch."""
        from . import demo

        return demo.show(self.out, self.seed, self.steps, self.text, self.skip, self.json)


@dataclass(frozen=True)
class Train:
    """Train a model, from a preset or on prepared data.

    If interrupted, run the same command again to resume, or unmask train with --out alone. Every configuration field
    is also an option: --steps 500 --layers 6 --optimizer muon. Examples:
      unmask train characters --out runs/shakespeare
      unmask train --data data/book --out runs/book --size 10m --steps 500
      unmask train --start demo --data data/letters --out runs/letters
      unmask train text8-genmd4 --out runs/text8 --dry-run
      unmask train --out runs/book
    """

    preset: Annotated[tyro.conf.Positional[str | None], optional("PRESET")] = None
    """A preset from the list below, data included. Without one, the configuration is chosen for --data."""
    data: Annotated[Path | None, optional("DIR")] = None
    """Folder made by unmask data prepare. Default: a preset prepares its own data."""
    out: Annotated[Path | None, optional("DIR")] = None
    """Folder of the run: configuration, metrics, samples, checkpoints."""
    size: Annotated[str | None, optional("NAME")] = None
    """Size of the network, without a preset: 1m, 3m, 10m, 30m, 85m, 300m, 700m or 1b parameters. Default: 1m."""
    start: Annotated[str | None, optional("MODEL")] = None
    """Fine-tune a model: start from its weights, network and method. The data must have its vocabulary."""
    method: Annotated[str | None, optional("NAME")] = None
    """md4, genmd4 (learns a schedule for every token), or one of unmask baselines. Default: the preset's, or md4."""
    log: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME", help_behavior_hint="")] = ()
    """Also log to tensorboard, wandb or both; metrics.jsonl is always written."""
    parallel: Annotated[Literal["ddp", "fsdp"] | None, optional("NAME")] = None
    """With torchrun: ddp (every rank holds the whole model; the default) or fsdp (every rank holds a part of it)."""
    dry_run: bool = False
    """Print the configuration and its cost without training."""
    json: bool = False
    """Print the result as JSON and nothing else."""
    settings: tyro.conf.Suppress[tuple[str, ...]] = ()
    """Fields of the configuration, as they were given."""

    def run(self) -> int:
        from unmask.mistakes import fail

        from . import train

        given = (self.preset, self.data, self.size, self.method)
        begun = train.begun(self.out) if not (any(given) or self.start) else None
        if begun is not None:  # what is set besides must be as it was
            config, plan = train.apply(begun, self.settings), None
        else:
            config, plan = train.configure(*given, self.settings, self.start)
        if self.out is None and not self.dry_run:
            fail("no folder for the run", got="no --out", allowed="a new folder, or the run's", do="add --out DIR")
        return train.run(config, plan, self.out or Path(), self.log, self.parallel, self.json, self.dry_run)


@dataclass(frozen=True)
class Baselines:
    """List the training methods besides MD4 and GenMD4.

    The list says how each one differs, who published it, whether it has a bound, and what a step costs. Examples:
      unmask baselines
      unmask train text8 --method sedd --out runs/sedd
    """

    json: bool = False
    """Print the list as JSON and nothing else."""

    def run(self) -> int:
        from . import baselines

        return baselines.run(self.json)


@dataclass(frozen=True)
class BenchTrain:
    """Measure how fast a configuration trains on this machine.

    It trains on synthetic data and reports tokens/s, memory, and where the time goes. Every configuration field is
    also an option, as with unmask train. Examples:
      unmask bench train characters --batch-size 32
      unmask bench train text8 --masks exact-k --shift 0 --out before.json
      unmask bench train text8 --masks exact-k --shift 0 --mlp relu2 --compare before.json
    """

    preset: Annotated[tyro.conf.Positional[str | None], optional("PRESET")] = None
    """A preset from the list below. Without one, the configuration is chosen for --data."""
    data: Annotated[Path | None, optional("DIR")] = None
    """Folder made by unmask data prepare; only its shape and vocabulary are used."""
    size: Annotated[str | None, optional("NAME")] = None
    """Size of the network, without a preset: 1m, 3m, 10m, 30m, 85m, 300m, 700m or 1b parameters."""
    method: Annotated[str | None, optional("NAME")] = None
    """Training method: md4, genmd4 or a name listed by unmask baselines."""
    windows: int = 5
    """Number of times to measure."""
    window: int = 10
    """Training steps in each measurement."""
    out: Annotated[Path | None, optional("FILE")] = None
    """Write the result to a JSON file."""
    compare: Annotated[Path | None, optional("FILE")] = None
    """A result file to compare with, written with --out."""
    json: bool = False
    """Print the result as JSON and nothing else."""
    settings: tyro.conf.Suppress[tuple[str, ...]] = ()
    """Fields of the configuration, as they were given."""

    def run(self) -> None:
        from . import bench, train

        config, plan = train.configure(self.preset, self.data, self.size, self.method, self.settings)
        shape = train.shape_of(config, plan)
        bench.run(config, shape, self.windows, self.window, self.out, self.compare, self.json)
