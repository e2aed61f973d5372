"""The commands that train: demo, train, baselines, bench train."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from .flags import optional


@dataclass(frozen=True)
class Demo:
    """See it at work: a model writes, fills, scores and draws.

    Then one of your own is trained. Three minutes in all; every part can be skipped. Examples:
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
class Train:
    """Train a model, by a preset or on prepared data.

    Stopped or killed, the same command goes on, or --out alone. Every field of the configuration is a flag too:
    --steps 500 --layers 6 --optimizer muon. Examples:
      unmask train characters --out runs/shakespeare
      unmask train --data data/book --out runs/book --size 10m --steps 500
      unmask train --start demo --data data/letters --out runs/letters
      unmask train text8-genmd4 --out runs/text8 --dry-run
      unmask train --out runs/book
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
    """List the methods beside MD4 and GenMD4.

    It says what differs, whose they are, whether they have a bound, and what a step costs. Examples:
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
    """Measure how fast a configuration trains here.

    On made-up data: tokens/s, memory, and where the time goes. Every field of the configuration is a flag too, as
    with train. Examples:
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
