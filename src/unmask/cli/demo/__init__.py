"""`unmask demo`: what a masked diffusion model does, in three minutes. Each part is a module and can be skipped."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from unmask.core import Streams
from unmask.files import check_folder
from unmask.mistakes import fail
from unmask.run.places import shipped

from .. import train
from ..machine import print_json
from . import digits, exactness, training, writing
from .stage import DemoStoppedError, Stage


@dataclass(frozen=True)
class Part:
    """A part of the demo, shown under a heading."""

    heading: str
    run: Callable[[Stage], Any]
    """Runs the part, and returns its results."""
    model: str | None = None
    """The shipped model that the part needs; the part is skipped if the package does not include it."""
    keeps: bool = False
    """Whether it writes files."""


PARTS: dict[str, Part] = {
    "write": Part("A paragraph, unmasked", writing.write, "demo"),
    "fill": Part("Gaps in a sentence, filled", writing.fill, "demo"),
    "score": Part("What surprises the model", writing.score, "demo"),
    "digits": Part("Digits, drawn", digits.draw, "digits", keeps=True),
    "train": Part("A model of your own", training.train_model, keeps=True),
    "exact": Part("What is exact about it", exactness.show),
}
"""The parts, in order."""


def show(out: Path, seed: int, steps: int, text: Path | None, skip: tuple[str, ...], as_json: bool) -> int:
    """Run all parts but the skipped ones; print the results, as JSON if requested. Returns the exit code."""
    for name in skip:
        if name not in PARTS:
            fail("no such part", got=name, allowed=", ".join(PARTS), do="choose one of them")
    if text is not None and not text.is_file():
        fail("no such text", got=text, allowed="a text file", do="check the path")
    there: set[str | None] = {None, *shipped()}
    if text is not None and "demo" not in there:
        fail("no model to fine-tune", got="a package without demo", allowed="one with it", do="leave --text out")
    Streams(seed, 1)  # reject a bad seed now, not after a minute
    stage = Stage(out, seed, steps, text, Console(quiet=as_json, highlight=False))
    wanted = {name: part for name, part in PARTS.items() if name not in skip and part.model in there}
    if any(part.keeps for part in wanted.values()):
        check_folder(out)  # now, not after a minute
        out.mkdir(parents=True, exist_ok=True)
    figures: dict[str, Any] = {}
    for number, (name, part) in enumerate(wanted.items(), start=1):
        stage.console.rule(f"{number}. {part.heading}", align="left")
        try:
            figures[name] = part.run(stage)
        except DemoStoppedError:
            return train.STOPPED
        stage.console.print()
    _name_next(stage, there)
    if as_json:
        print_json(figures)
    return 0


def _name_next(stage: Stage, there: set[str | None]) -> None:
    """Print commands that work as they are: with the shipped models if present, else with the one just trained."""
    shipped_ones = (
        'unmask infill demo "The door opened, and ____ came in." -n 3',
        "unmask serve demo digits            # a studio in the browser",
        "unmask data prepare my.txt --vocabulary demo --out data/my",
        "unmask train --start demo --data data/my --out runs/my",
    )
    run = stage.out / "run"
    trained_one = (
        f'unmask infill {run} "To be or ______" -n 3',
        f"unmask serve {run}            # a studio in the browser",
        "unmask data prepare my.txt --out data/my",
        "unmask train --data data/my --out runs/my",
    )
    stage.console.print("Next steps (after source .venv/bin/activate, if you installed with make):")
    for line in (*(shipped_ones if {"demo", "digits"} <= there else trained_one), "unmask --help"):
        stage.console.print(f"  {line}", soft_wrap=True)
