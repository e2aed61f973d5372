"""The plots in the documents, made from the JSON under `results/`: docs/images/NAME.svg.

    python -m benchmarks.plots

The same JSON and the same matplotlib give the same bytes.
"""

from collections.abc import Callable, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

from unmask.cli.figures import COLOURS, picture
from unmask.files import atomic_write
from unmask.mistakes import extra

from .record import load_results

IMAGES = Path(__file__).parent.parent / "docs" / "images"
LOOKS = (("o", "-"), ("s", "--"), ("^", ":"))


def grids(result: dict[str, Any]) -> Any:
    """Fréchet distance against steps, without and with class, and the share read as the requested class."""
    figure = picture(10.5, 3.3)
    panels = figure.subplots(1, 3)
    for axes, conditional in zip(panels, (False, True), strict=False):
        rows = [r for r in result["rows"] if r["conditional"] is conditional]
        _lines(axes, rows, "steps", "frechet")
        floor = result["floor"]["frechet"]["mean"]
        axes.axhline(floor, color="0.6", linewidth=1, label="training images")
        axes.set(
            yscale="log", title="with class" if conditional else "no class", ylabel="Fréchet distance between features"
        )
    _lines(panels[2], [r for r in result["rows"] if "as_asked" in r], "steps", "as_asked")
    panels[2].set(title="with class", ylabel="share read as the requested class")
    panels[0].legend(frameon=False, fontsize=8)
    return figure


def infilling(result: dict[str, Any]) -> Any:
    """Conflict, and bits under the n-gram model, against steps for both patterns."""
    figure = picture(10.5, 6.2)
    patterns = list(dict.fromkeys(r["pattern"] for r in result["rows"]))
    grid = figure.subplots(2, len(patterns), squeeze=False)
    for column, pattern in enumerate(patterns):
        rows = [r for r in result["rows"] if r["pattern"] == pattern and r["steps"] is not None]
        (alone,) = (r for r in result["rows"] if r["pattern"] == pattern and r["steps"] is None)
        above, below = grid[:, column]
        _lines(above, rows, "steps", "conflict")
        _lines(below, rows, "steps", "ngram")
        below.axhline(alone["ngram"]["mean"], color="0.3", linewidth=1, label=alone["way"])
        below.axhline(result["text"][pattern]["mean"], color="0.6", linewidth=1, label="the text itself")
        above.set(title=pattern, ylabel="conflict, bits per token")
        below.set(ylabel=f"{result['ngram_order']}-gram bits per token")
        below.legend(frameon=False, fontsize=8)
    return figure


def sampler_frontier(result: dict[str, Any]) -> Any:
    """Perplexity and entropy against network calls, a panel for each kind of sampler."""
    real, *points = result["points"]
    names = [name for name in real["values"] if "perplexity" in name or "entropy" in name]
    figure = picture(12, 3.2 * len(names))
    kinds = list(KINDS)
    grid = figure.subplots(len(names), len(kinds), squeeze=False, sharey="row", sharex=True)
    for row, name in enumerate(names):
        for axes, kind in zip(grid[row], kinds, strict=True):
            axes.axhline(real["values"][name]["value"], color="0.6", linewidth=1, label=real["sampler"])
            for i, sampler in enumerate(s for s in KINDS[kind] if any(p["sampler"] == s for p in points)):
                own = sorted((p for p in points if p["sampler"] == sampler), key=lambda p: p["calls"])
                marker, style = LOOKS[i % len(LOOKS)]  # to tell overlapping lines apart
                look = {"color": COLOURS[i % len(COLOURS)], "marker": marker, "linestyle": style, "markersize": 3}
                axes.plot([p["calls"] for p in own], [p["values"][name]["value"] for p in own], label=sampler, **look)
            axes.set(xscale="log", title=kind if row == 0 else "")
            if row + 1 == len(names):
                axes.set(xlabel="network calls per sample")
        grid[row][0].set(ylabel=name, yscale="log" if "perplexity" in name else "linear")
    for axes in grid[0]:
        axes.legend(frameon=False, fontsize=7)
    return figure


def learned_w(result: dict[str, Any]) -> Any:
    """The exponents of GenMD4, sorted and against the frequency of each character."""
    figure = picture(10.5, 3.6)
    bars, scatter = figure.subplots(1, 2, width_ratios=(3, 2))
    w = dict(sorted(result["w"].items(), key=lambda item: -item[1]))
    bars.bar(range(len(w)), list(w.values()), color=COLOURS[0])
    bars.set_xticks(range(len(w)), list(w))
    bars.tick_params(axis="x", length=0)
    bars.set(ylabel="w of α$_t$ = 1 − t$^w$", xlabel="character (a larger w is hidden later and revealed earlier)")
    for character, value in w.items():
        share = result["frequencies"][character]
        scatter.annotate(character, (share, value), ha="center", va="center")
        scatter.plot(share, value, alpha=0)
    scatter.set(xscale="log", xlabel="share of the training text", ylabel="w")
    for axes in (bars, scatter):
        axes.axhline(1, color="0.5", linewidth=0.8, linestyle="--")
    return figure


KINDS: dict[str, Sequence[str]] = {
    "in steps": ("ancestral", "analytic", "two-step", "joint", "euler", "tau-leaping", "halton"),
    "one by one, and drafts": ("ancestral", "first-hitting", "speculative", "left-to-right"),
    "what is sure first": ("ancestral", "confidence", "margin", "entropy", "entropy-bounded", "threshold"),
    "hidden again": (
        *("ancestral", "remask-cap", "remask-rescale", "remask-confidence", "remask-loop", "forward-backward"),
        "dfm-corrector",
    ),
}
"""Samplers that share a panel; ancestral is in each panel for comparison."""


def _lines(axes: Any, rows: Sequence[dict[str, Any]], across: str, up: str) -> None:
    """A line with error bars for each combination of schedule and grid."""
    for i, way in enumerate(dict.fromkeys(r["way"] for r in rows)):
        own = [r for r in rows if r["way"] == way]
        marker, style = LOOKS[i % len(LOOKS)]
        axes.errorbar(
            [r[across] for r in own],
            [r[up]["mean"] for r in own],
            [r[up]["error"] for r in own],
            marker=marker,
            linestyle=style,
            color=COLOURS[i],
            markersize=4,
            linewidth=1.2,
            capsize=2,
            label=way,
        )
    axes.set(xscale="log", xlabel=across)
    axes.set_xticks([r[across] for r in own], [str(r[across]) for r in own])
    axes.minorticks_off()


CHARACTERS = 27
PAPER = 1.37
"""Bits per character of MD4 on text8 in the paper, after 1 M steps of batch 512."""


def text8_speed(*results: dict[str, Any]) -> Any:
    """Every run on text8 by its time; lines connect the best run of each budget, for characters and subwords."""
    figure = picture(7.5, 3.8)
    axes = figure.subplots()
    by_kind = {
        "characters": [r for r in results if r["vocabulary"] == CHARACTERS],
        "subwords": [r for r in results if r["vocabulary"] != CHARACTERS],
    }
    for (kind, runs), colour, (marker, _) in zip(by_kind.items(), COLOURS, LOOKS, strict=False):
        axes.plot(*zip(*map(_speed, runs), strict=True), marker, color=colour, alpha=0.35)
        budgets = sorted({r["budget_s"] for r in runs})
        best = [min((_speed(r) for r in runs if r["budget_s"] == budget), key=itemgetter(1)) for budget in budgets]
        axes.plot(*zip(*best, strict=True), f"{marker}-", color=colour, label=f"{kind}, best of each budget")
    axes.axhline(PAPER, color="0.6", linewidth=1, label="the paper's MD4, characters, 1 M steps")
    axes.set(xscale="log", xlabel="seconds of training on one H200", ylabel="bits per character")
    ticks = sorted({round(r["budget_s"]) for r in results})
    axes.set_xticks(ticks, [str(t) for t in ticks])
    axes.minorticks_off()
    axes.legend(frameon=False, fontsize=8)
    return figure


def _speed(result: dict[str, Any]) -> tuple[float, float]:
    """(seconds, bits per character)."""
    return result["training_s"], result["result"]["bits_per_character"]["mean"]


PLOTS: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {
    "text8_speed": (text8_speed, ("speedrun/*", "explorations/*/*")),
    "learned_w": (learned_w, ("genmd4/genmd4-2300-0",)),
    "grids": (grids, ("grids_digits",)),
    "infilling": (infilling, ("grids_infill",)),
    "sampler_frontier": (sampler_frontier, ("sampler_frontier",)),
}
"""The function that makes each plot, and the results that it needs."""


def write(name: str, folder: Path = IMAGES) -> Path:
    """Write one plot, without anything that would change between runs."""
    matplotlib = extra("matplotlib", "plot", "a picture")
    make, names = PLOTS[name]
    path = folder / f"{name}.svg"
    figure = make(*load_results(*names))
    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter("{x:g}")
        if axes.get_yscale() == "log":
            axes.yaxis.set_minor_locator(matplotlib.ticker.LogLocator(subs=(2, 5)))
    with matplotlib.rc_context({"svg.hashsalt": name, "svg.fonttype": "none"}), atomic_write(path) as file:
        figure.savefig(file, format="svg", metadata={"Date": None})
    return path


if __name__ == "__main__":
    for name in PLOTS:
        print(f"wrote {write(name).name}")
