"""The plots in the documents, made from the JSON under `results/`: docs/images/NAME.svg.

    python -m benchmarks.plots

The same JSON and the same matplotlib give the same bytes.
"""

import math
from collections.abc import Callable, Sequence
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
    """Perplexity and entropy against network calls with 95 % intervals, a panel for each kind of sampler."""
    real, *points = result["points"]
    names = [name for name in real["values"] if "perplexity" in name or "entropy" in name]
    figure = picture(12, 3.4 * len(names))
    grid = figure.subplots(len(names), len(KINDS), squeeze=False, sharex=True)
    by_sampler: dict[str, list[dict[str, Any]]] = {}
    for point in sorted(points, key=lambda p: p["calls"]):
        by_sampler.setdefault(point["sampler"], []).append(point)
    for row, name in zip(grid, names, strict=True):
        for axes, (kind, samplers) in zip(row, KINDS.items(), strict=True):
            if kind != FAR and axes is not row[0]:
                axes.sharey(row[0])
            axes.axhline(real["values"][name]["value"], color="0.6", linewidth=1, label=real["sampler"])
            curves = _without_copies({s: by_sampler[s] for s in samplers if s in by_sampler})
            for i, (label, own) in enumerate(curves.items()):
                marker, style = LOOKS[i % len(LOOKS)]  # to tell overlapping lines apart
                calls, colour = [p["calls"] for p in own], COLOURS[i % len(COLOURS)]
                found = [p["values"][name] for p in own]
                value = [v["value"] for v in found]
                low, high = ([v["value"] if v[end] is None else v[end] for v in found] for end in ("low", "high"))
                axes.plot(calls, value, color=colour, marker=marker, linestyle=style, markersize=3, label=label)
                axes.fill_between(calls, low, high, color=colour, alpha=0.15, linewidth=0)
            axes.set(xscale="log", yscale="log" if "perplexity" in name else "linear")
            axes.set_xticks(CALLS, [str(calls) for calls in CALLS])
            axes.minorticks_off()
        row[0].set(ylabel=name)
    for kind, above, below in zip(KINDS, grid[0], grid[-1], strict=True):
        above.set(title=kind)
        above.legend(frameon=False, fontsize=7.5)
        below.set(xlabel="network calls per sample")
    return figure


def _without_copies(curves: dict[str, list[dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    """Samplers that give the same samples become one curve, that of the sampler with the most points."""
    groups: list[list[str]] = []
    for name, points in curves.items():
        same = (group for group in groups if points[0]["values"] == curves[group[0]][0]["values"])
        group = next(same, None)
        groups.append([name]) if group is None else group.append(name)
    return {", ".join(names): max((curves[name] for name in names), key=len) for names in groups}


def learned_w(result: dict[str, Any]) -> Any:
    """The exponents of GenMD4, sorted and against the frequency of each character."""
    figure = picture(10.5, 4.2)
    bars, scatter = figure.subplots(1, 2)
    w = dict(sorted(result["w"].items(), key=lambda item: -item[1]))
    bars.bar(range(len(w)), list(w.values()), color=COLOURS[0])
    bars.set_xticks(range(len(w)), list(w))
    bars.tick_params(axis="x", length=0)
    bars.set(ylabel="w of α$_t$ = 1 − t$^w$", xlabel="character (a larger w is hidden later and revealed earlier)")
    spots = {character: (share, w[character]) for character, share in result["frequencies"].items()}
    for character, side in _beside(spots).items():
        scatter.plot(*spots[character], "o", color=COLOURS[0], markersize=3)
        scatter.annotate(character, spots[character], side, textcoords="offset points", ha="center", va="center")
    scatter.set(xscale="log", yscale="log", xlabel="share of the training text", ylabel="w")
    for axes in (bars, scatter):
        axes.axhline(1, color="0.5", linewidth=0.8, linestyle="--")
    return figure


def _beside(spots: dict[str, tuple[float, float]]) -> dict[str, tuple[int, int]]:
    """Where to put each label, in points from its spot on logarithmic axes: on the side with the most room."""
    places = {name: (140 * math.log10(x), 100 * math.log(y)) for name, (x, y) in spots.items()}
    taken, sides = list(places.values()), {}
    for name, (x, y) in places.items():

        def room(side: tuple[int, int], x: float = x, y: float = y) -> float:
            return min(math.dist((x + side[0], y + side[1]), other) for other in taken)

        sides[name] = max(((7, 0), (-7, 0), (0, 8), (0, -8)), key=room)
        taken.append((x + sides[name][0], y + sides[name][1]))
    return sides


CALLS = (8, 16, 32, 64, 128, 256)
FAR = "most certain first"
"""Samplers so far from the others that their panels have a scale of their own."""
KINDS: dict[str, Sequence[str]] = {
    "step grids": ("ancestral", "analytic", "two-step", "joint", "euler", "tau-leaping", "halton"),
    "one by one, and drafts": ("ancestral", "first-hitting", "speculative", "left-to-right"),
    FAR: ("ancestral", "confidence", "margin", "entropy", "entropy-bounded", "threshold"),
    "re-masking": (
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
    """Every run on text8 by its time, with errors; filled where the whole test split was measured."""
    figure = picture(7.5, 3.8)
    axes = figure.subplots()
    by_kind = {
        "characters": [r for r in results if r["vocabulary"] == CHARACTERS],
        "subwords": [r for r in results if r["vocabulary"] != CHARACTERS],
    }
    for (kind, runs), colour, (marker, _) in zip(by_kind.items(), COLOURS, LOOKS, strict=False):
        for split, filled in (("test", True), ("valid", False)):
            own = [r for r in runs if r["result"]["split"] == split]
            bits = [r["result"]["bits_per_character"] for r in own]
            axes.errorbar(
                [r["training_s"] for r in own],
                [b["mean"] for b in bits],
                [b["error"] for b in bits],
                fmt=marker,
                color=colour,
                markerfacecolor=colour if filled else "none",
                alpha=1 if filled else 0.5,
                markersize=4,
                label=f"{kind}, {'the test split' if filled else 'validation text'}",
            )
    axes.axhline(PAPER, color="0.6", linewidth=1, label="the paper's MD4, characters, 1 M steps")
    axes.set(xscale="log", xlabel="seconds of training on one H200", ylabel="bits per character")
    ticks = sorted({round(r["budget_s"]) for r in results})
    axes.set_xticks(ticks, [str(t) for t in ticks])
    axes.minorticks_off()
    axes.legend(frameon=False, fontsize=8)
    return figure


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
