"""Plots of schedules, grids and runs. matplotlib is an extra and is imported only when a plot is drawn."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unmask.core import Cosine, Geometric, Linear, Polynomial, Schedule, exponents
from unmask.files import atomic_write
from unmask.mistakes import extra
from unmask.run.sampling import GRIDS

SCHEDULES: dict[str, Schedule] = {
    "linear": Linear(),
    "polynomial, w = 2": Polynomial(2.0),
    "geometric": Geometric(),
    "cosine": Cosine(),
}
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""A palette that is safe for colour-blind readers (Okabe and Ito)."""
_STYLES = ("-", "--", ":", "-.")
"""Line styles, which distinguish lines that coincide."""
_MOST_BARS = 40
"""Maximum number of tokens in a chart; of a larger vocabulary the two ends are shown."""


@dataclass(frozen=True)
class Curve:
    """What a run has logged, in bits per token."""

    name: str
    steps: Sequence[int]
    losses: Sequence[float]
    held_out: Sequence[tuple[int, float, float]]
    """(step, bound, standard error)."""


@dataclass(frozen=True)
class Line:
    """A named schedule; one per token gives a band between the extremes, around the mean."""

    name: str
    schedule: Schedule


def picture(width: float, height: float) -> Any:
    """An empty figure."""
    extra("matplotlib", "plot", "a plot")
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def save(figure: Any, path: Path) -> Path:
    """Write the figure in the format of the file suffix, atomically."""
    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)
    with atomic_write(path) as file, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")  # a symbol that no installed font has
        figure.savefig(file, format=path.suffix.removeprefix(".") or "png", dpi=150)
    return path


def plot_schedules(path: Path, lines: Sequence[Line]) -> Path:
    """The paper's Figure 1: α_t of each schedule, and the weight −α'_t/(1−α_t) of its cross-entropy."""
    figure = picture(10, 3.6)
    left, right = figure.subplots(1, 2)
    t = torch.linspace(0, 1, 501, dtype=torch.float64)[1:-1]
    for i, line in enumerate(lines):
        look = {"color": COLOURS[i % len(COLOURS)], "linestyle": _STYLES[i % len(_STYLES)]}
        _band(left, t, _at(line.schedule.alpha, t, line.schedule), line.name, look)
        _band(right, t, -_at(line.schedule.loss_weight, t, line.schedule), line.name, look)
    left.set(xlabel="time t", ylabel="α$_t$, probability still visible", xlim=(0, 1), ylim=(0, 1))
    right.set(xlabel="time t", ylabel="weight of the cross-entropy", xlim=(0, 1), ylim=(0, 10))
    left.legend(frameon=False)
    return save(figure, path)


def revealed_per_step(schedule: Schedule, grid_name: str, steps: int, length: int) -> list[float]:
    """Expected tokens revealed in each step, N (α_s − α_t); with a schedule per token, all tokens count equally."""
    alpha = _at(schedule.alpha, GRIDS[grid_name](steps), schedule).mean(0)
    return [length * gain for gain in alpha.diff().tolist()]


def plot_revealed(path: Path, lines: Sequence[tuple[Schedule, str, str]], steps: int, length: int) -> Path:
    """Tokens revealed per step (the paper's Figure 2, right) for (schedule, grid, name)."""
    figure = picture(6.4, 3.8)
    axes = figure.add_subplot()
    for i, (schedule, grid, name) in enumerate(lines):
        values = revealed_per_step(schedule, grid, steps, length)
        style = _STYLES[i % len(_STYLES)]
        axes.plot(range(1, steps + 1), values, style, color=COLOURS[i % len(COLOURS)], label=name)
    axes.set(xlabel="step", ylabel="tokens revealed", title=f"{length:,} tokens in {steps} steps")
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False)
    return save(figure, path)


def plot_losses(path: Path, curves: Sequence[Curve]) -> Path:
    """The smoothed training loss, and the held-out bound with its standard error."""
    figure = picture(7.6, 4.2)
    axes = figure.add_subplot()
    for curve, colour in zip(curves, _colours(len(curves)), strict=True):
        steps, smooth, window = smoothed(curve.steps, curve.losses)
        axes.plot(curve.steps, curve.losses, color=colour, alpha=0.15, linewidth=0.6)
        mean = f" (mean of {window} steps)" if window > 1 else ""
        axes.plot(steps, smooth, color=colour, label=f"{curve.name}, training{mean}")
        if curve.held_out:
            at, bound, error = zip(*curve.held_out, strict=True)
            axes.errorbar(
                at, bound, error, color=colour, fmt="o--", capsize=3, markersize=4, label=f"{curve.name}, held out"
            )
    axes.set(xlabel="step", ylabel="bits per token", title="loss; bars are one standard error")
    axes.grid(color="0.92")
    axes.set_axisbelow(True)
    axes.legend(frameon=False)
    return save(figure, path)


def smoothed(steps: Sequence[int], losses: Sequence[float]) -> tuple[list[float], list[float], int]:
    """Centres of windows of a fiftieth of all steps, the means over them, and the window size."""
    window = max(1, len(losses) // 50)
    kernel = np.full(window, 1 / window)
    centres, means = (np.convolve(np.asarray(x, dtype=float), kernel, "valid") for x in (steps, losses))
    return centres.tolist(), means.tolist(), window


def plot_exponents(path: Path, models: Sequence[tuple[str, Tensor, Sequence[str]]]) -> Path:
    """The learned w of each token, sorted, with a panel for each (name, w [V], symbols)."""
    most = max(min(len(w), _MOST_BARS) for _, w, _ in models)
    figure = picture(max(5.0, 1.6 + 0.24 * most), 3.4 * len(models))
    for axes, (name, w, symbols) in zip(figure.subplots(len(models), 1, squeeze=False)[:, 0], models, strict=True):
        order = w.argsort(descending=True).tolist()
        half = _MOST_BARS // 2
        parts = [order] if len(order) <= _MOST_BARS else [order[:half], order[-half:]]
        shown = [i for part in parts for i in part]
        colours = [COLOURS[number] for number, part in enumerate(parts) for _ in part]
        axes.bar(range(len(shown)), w[shown].tolist(), color=colours, width=0.8)
        axes.axhline(1, color="0.5", linewidth=0.8, linestyle="--")
        axes.set_xticks(range(len(shown)), [symbols[i] for i in shown], rotation=90 if len(shown) > 12 else 0)
        axes.tick_params(axis="x", length=0)
        ends = f", the {half} largest and the {half} smallest of {len(order):,}" if len(parts) > 1 else ""
        axes.set(ylabel="w of α$_t$ = 1 − t$^w$", title=f"{name}: learned w{ends}", xlim=(-0.7, len(shown) - 0.3))
    figure.supxlabel("token; the larger w, the later it is masked and the earlier it is revealed", fontsize="medium")
    return save(figure, path)


def _at(function: Any, t: Tensor, schedule: Schedule) -> Tensor:
    """The values [K, T] of a schedule's function; K is 1, or the number of tokens."""
    if not schedule.per_token:
        return function(t)[None]  # type: ignore[no-any-return]
    tokens = torch.arange(len(exponents(schedule)))
    one_by_one = getattr(schedule.at(tokens[:, None]), function.__name__)
    return one_by_one(t)  # type: ignore[no-any-return]


def _band(axes: Any, t: Tensor, values: Tensor, name: str, look: dict[str, str]) -> None:
    axes.plot(t, values.mean(0), **look, label=name if len(values) == 1 else f"{name}, mean and range of tokens")
    if len(values) > 1:
        axes.fill_between(t, values.amin(0), values.amax(0), color=look["color"], alpha=0.2, linewidth=0)


def _colours(count: int) -> list[str]:
    return [COLOURS[i % len(COLOURS)] for i in range(count)]
