"""Readable results of evaluations: a Markdown table and a plot, beside the JSON."""

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..evaluation import bits, perplexity
from ..evaluation.intervals import Z95, decimal, interval
from ..files import atomic_write
from .evaluate import Result


def kind(result: Result) -> str:
    """Which bound it is: in continuous time, or of a number of steps."""
    steps = result.settings["steps"]
    return "continuous time" if steps is None else f"{steps:,} steps"


def markdown(results: Sequence[Result]) -> str:
    """A table with a row for each bound, and how it was measured."""
    first = results[0]
    names = [f"bits per {unit}" for unit in first.bits()]
    lines = ["| | " + " | ".join(names) + " | perplexity per token (95 %) |", "|---" * (2 + len(names)) + "|"]
    for result in results:
        cells = [f"{figure.mean:.4f} ± {decimal(figure.error, 4)}" for figure in result.bits().values()]
        value, low, high = perplexity(result.per_token)
        lines.append(f"| {kind(result)} | " + " | ".join(cells) + f" | {value:.3f} ({interval(low, high, 3)}) |")
    scores = first.scores
    settings = ", ".join(f"{name} {value}" for name, value in first.settings.items() if value is not None)
    over = f"{first.per_token.freedom + 1} blocks of neighbouring sequences" if scores.neighbours else "sequences"
    return "\n".join(
        [*lines, "", f"± is one standard error over {over}. {amount(first)} network calls each. {settings}."]
    )


def amount(*results: Result) -> str:
    """How much was measured, as text that ends with the number of network calls."""
    count, of = len(results[0].scores.nats), results[0].of
    sequences = f"{count:,} sequences" if count == of else f"{count:,} of {of:,} sequences"
    calls = sum(result.scores.calls for result in results)
    return f"{sequences}, {int(results[0].scores.tokens.sum()):,} tokens, {calls:,}"


def write(results: Sequence[Result], folder: Path, name: str) -> list[Path]:
    """Write NAME.md, and NAME.png if matplotlib is installed."""
    path = folder / f"{name}.md"
    with atomic_write(path, "w") as file:
        file.write(markdown(results) + "\n")
    if importlib.util.find_spec("matplotlib") is None:
        return [path]
    return [path, _draw(results, folder / f"{name}.png")]


def _draw(results: Sequence[Result], path: Path) -> Path:
    """Plot a histogram over sequences and, with several numbers of steps, the bound against them."""
    from matplotlib.figure import Figure

    panels = 1 + (len(results) > 1)
    picture = Figure(figsize=(5.2 * panels, 3.4), layout="constrained")
    _histogram(picture.add_subplot(1, panels, 1), results[0])
    if panels > 1:
        _against_steps(picture.add_subplot(1, panels, 2), results)
    with atomic_write(path) as file:
        picture.savefig(file, format="png", dpi=130)
    return path


def _histogram(axes: Any, result: Result) -> None:
    each = result.scores.nats / result.scores.tokens / np.log(2)
    mean = bits(result.per_token)
    axes.hist(each, bins=min(60, max(5, len(each) // 10)), color="0.75")
    axes.axvline(mean.mean, color="C0", label=f"{mean.mean:.4f} ± {decimal(mean.error, 4)}")
    axes.set(xlabel="bits per token", ylabel="sequences", title=f"{result.settings['split']}, {kind(result)}")
    axes.legend()


def _against_steps(axes: Any, results: Sequence[Result]) -> None:
    stepped = [(result.settings["steps"], bits(result.per_token)) for result in results if result.settings["steps"]]
    steps, found = zip(*stepped, strict=True)
    axes.errorbar(steps, [f.mean for f in found], [Z95 * f.monte_carlo for f in found], marker="o", capsize=3)
    for result in results:
        if result.settings["steps"] is None:
            level = bits(result.per_token)
            low, high = level.mean - Z95 * level.monte_carlo, level.mean + Z95 * level.monte_carlo
            axes.axhline(level.mean, color="0.5", linestyle="--", label="continuous time")
            axes.axhspan(low, high, color="0.9")
    axes.set(xscale="log", xlabel="steps of the sampler", ylabel="bits per token", title="bound (± Monte Carlo, 95 %)")
    axes.set_xticks(steps, [f"{number:,}" for number in steps])
    axes.minorticks_off()
    axes.legend()
