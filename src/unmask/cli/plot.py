"""`unmask plot`: one plot per topic, all runs on the same axes."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from unmask.core import Schedule, exponents
from unmask.data.vocabulary import Vocabulary
from unmask.files import check_folder
from unmask.mistakes import extra, fail, require
from unmask.run import Model, ModelFolder, Run, find_model
from unmask.run.model import load
from unmask.run.sampling import GRIDS
from unmask.sampling import SAMPLERS

from . import figures
from .machine import print_json


@dataclass(frozen=True)
class Subject:
    """A model to plot."""

    name: str
    folder: ModelFolder
    model: Model

    @property
    def schedule(self) -> Schedule:
        return self.model.process.schedule

    @property
    def walks(self) -> bool:
        """Whether it is sampled along a time grid; a model that reads in order does not use a schedule."""
        return SAMPLERS[self.model.method.family.sampler].grid


Topic = Callable[[Path, Sequence[Subject], int], Path | None]
"""Draws the plot and returns its path, or None if there is nothing to draw."""


def run(names: Sequence[str], out: Path | None, ending: str, steps: int, as_json: bool) -> int:
    """Draw every topic that the models have data for."""
    require(bool(names), "nothing to plot", got="no run", allowed="one or more", do="name the folder of a run")
    require(steps >= 1, "the number of steps is not positive", got=steps, allowed=">= 1", do="use 64")
    if out is None and len(names) > 1:
        fail("several runs have no common folder", got="no --out", allowed="a folder", do="add --out DIR")
    extra("matplotlib", "plot", "plotting a run")  # fail before the work, not after
    folders = [find_model(name) for name in names]
    place = out or folders[0].results / "plots"
    check_folder(place)
    subjects = [Subject(short, f, load(f, device="cpu")) for short, f in zip(_short(names), folders, strict=True)]
    drawn = [topic(place / f"{name}.{ending}", subjects, steps) for name, topic in TOPICS.items()]
    written = [str(path) for path in drawn if path is not None]
    if as_json:
        print_json(written)
    else:
        print("wrote " + ", ".join(written) if written else "nothing to plot: no losses, and no schedule in use")
    return 0


def _short(names: Sequence[str]) -> list[str]:
    """The last part of each path if these are distinct, else the whole paths."""
    last = [Path(name).resolve().name for name in names]
    return last if len(set(last)) == len(last) else list(names)


def _losses(path: Path, subjects: Sequence[Subject], steps: int) -> Path | None:
    del steps
    curves = [curve for subject in subjects for curve in _curves(subject)]
    return figures.plot_losses(path, curves) if curves else None


def _curves(subject: Subject) -> Iterator[figures.Curve]:
    lines = subject.folder.metrics() if isinstance(subject.folder, Run) else []
    if lines:
        held_out = [(line["step"], line["validation"]) for line in lines if "validation" in line]
        yield figures.Curve(
            subject.name,
            [line["step"] for line in lines],
            [line["loss"] for line in lines],
            [(step, bits["mean"], bits["error"] or 0.0) for step, bits in held_out],
        )


def _schedules(path: Path, subjects: Sequence[Subject], steps: int) -> Path | None:
    del steps
    lines = [figures.Line(subject.name, subject.schedule) for subject in subjects if subject.walks]
    return figures.plot_schedules(path, lines) if lines else None


def _revealed(path: Path, subjects: Sequence[Subject], steps: int) -> Path | None:
    """Tokens per step, for every grid; the length is that of the first model."""
    lines = [(s.schedule, grid, f"{s.name}, {grid} grid") for s in subjects if s.walks for grid in GRIDS]
    length = math.prod(subjects[0].model.facts.shape)
    return figures.plot_revealed(path, lines, steps, length) if lines else None


def _exponents(path: Path, subjects: Sequence[Subject], steps: int) -> Path | None:
    del steps
    models = [(s.name, exponents(s.schedule), symbols(s.model.vocabulary)) for s in subjects if s.schedule.per_token]
    return figures.plot_exponents(path, models) if models else None


def symbols(vocabulary: Vocabulary) -> list[str]:
    """Each token as it is shown on an axis: whitespace as escapes."""
    shown = [vocabulary.decode([i]) for i in range(vocabulary.size)]
    ends = {vocabulary.eos_id: "end"}
    plain = ["␣" if text == " " else repr(text)[1:-1] for text in shown]
    return [ends.get(i, text or "''").replace("$", r"\$") for i, text in enumerate(plain)]


TOPICS: dict[str, Topic] = {"loss": _losses, "schedule": _schedules, "revealed": _revealed, "w": _exponents}
