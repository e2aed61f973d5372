"""One line per finding, for the README and for the top of the results page."""

from collections.abc import Callable
from itertools import islice
from typing import Any

from .form import share, with_error

Result = dict[str, Any]
Row = tuple[str, str, str]
"""What was asked, the figure, and the section that explains it."""


def highlights(*results: Result, page: str = "docs/results.md") -> str:
    """The rows, each from its own results, with links to their sections of the page."""
    given = iter(results)
    rows = [make(*islice(given, len(names))) for make, names in ROWS]
    lines = [f"| [{what}]({page}#{where}) | {figure} |" for what, figure, where in rows]
    return "\n".join(["| what | figure |", "|---|---|", *lines])


def contents(*results: Result) -> str:
    """The same for the top of the page itself."""
    return highlights(*results, page="")


def _text8(subwords: Result, characters: Result) -> Row:
    first, second = (_by_masks(r["result"]["bits_per_character"]) for r in (subwords, characters))
    return (
        f"text8 after {subwords['budget_s'] / 60:.0f} minutes of training (one {subwords['device']})",
        f"{first} bits per character with subwords, {second} with characters (whole test split, ± masks alone)",
        "text8-in-ten-minutes",
    )


def _methods(learned: Result, plain: Result) -> Row:
    first, second = (_by_masks(r["result"]["bits_per_character"]) for r in (plain, learned))
    return (
        f"MD4 and GenMD4 on text8 after {learned['steps']:,} steps",
        f"{first} bits per character for MD4, {second} for GenMD4 (± masks alone)",
        "md4-and-genmd4-on-text8",
    )


def _digits(grids: Result) -> Row:
    """The fewest steps with a class, linear schedule."""
    rows = [r for r in grids["rows"] if r["conditional"]]
    first = {
        grid: min((r for r in rows if r["way"] == f"linear, {grid} grid"), key=lambda r: r["steps"])
        for grid in ("uniform", "cosine")
    }
    figure = ", ".join(f"{with_error(row['frechet'], 2)} on the {grid} grid" for grid, row in first.items())
    return (
        f"digits by class, sampled in {first['cosine']['steps']} steps",
        f"Fréchet distance between features {figure} ({grids['samples']} samples)",
        "digits",
    )


def _pixels(short: Result, long: Result) -> Row:
    first, second = (r["budget_s"] / 60 for r in (short, long))
    figures = [with_error(r["result"]["bits_per_dimension"]) for r in (short, long)]
    return (
        f"CIFAR-10, the paper's U-Net after {first:.0f} and {second:.0f} minutes",
        f"{figures[0]} and {figures[1]} bits per dimension (whole test split)",
        "cifar-10",
    )


def _books(text: Result, counts: Result) -> Row:
    (own,) = (bound for bound in text["held_out"] if bound["steps"] is None)
    return (
        "a model of GPT-2's size after ten minutes of training on books, on an unseen book",
        _beside(own["bits_per_token"], counts["sets"]["held out"], "bits per token"),
        "gpt-2-small-on-books",
    )


def _written(result: Result) -> Row:
    """The result with the most calls: one token at a time."""
    longest, size = max(result["rows"], key=lambda r: r["steps"]), result["text"]["bytes"]
    bound = result["bound"]
    return (
        "held-out text, compressed to a file and decompressed again",
        f"{8 * longest['file'] / size:.3f} bits per byte, {8 * longest['code'] / size:.3f} without its header; "
        f"the bound is {_by_masks(bound)} (± masks alone)",
        "the-bound-as-a-file",
    )


def _chorales(result: Result) -> Row:
    group = result["groups"]["all"]
    return (
        "Bach's chorales",
        _beside(group["bits_per_token"], group["n_grams"], "bits per note"),
        "other-data",
    )


def _molecules(valid: Result) -> Row:
    good, new = (share(valid[name]["value"], valid[name]["error"]) for name in ("valid", "novel"))
    return "molecules", f"{good} valid, {new} of them new", "other-data"


def _by_masks(figure: Result) -> str:
    """The error for exactly the text that was measured: only the masks are random."""
    return f"{figure['mean']:.3f} ± {figure['monte_carlo']:.3f}"


def _beside(figure: Result, orders: list[Result], unit: str) -> str:
    """A model's bits, and those of the best n-gram model."""
    best = min(orders, key=lambda n: n["mean"])
    return f"{with_error(figure)} {unit}; the best n-gram model {with_error(best)}"


ROWS: tuple[tuple[Callable[..., Row], tuple[str, ...]], ...] = (
    (_text8, ("speedrun/subwords-values-0", "speedrun/chars-10min-0")),
    (_methods, ("genmd4/genmd4-2300-0", "genmd4/md4-2300-0")),
    (_digits, ("grids_digits",)),
    (_pixels, ("cifar10/md4-10min-0", "cifar10/md4-25min-0")),
    (_books, ("text/books", "text/books-counts")),
    (_written, ("compression",)),
    (_chorales, ("other_data/chorales",)),
    (_molecules, ("other_data/validity",)),
)
"""The function that makes each row, and the results that it needs."""
NEEDED = tuple(name for _, names in ROWS for name in names)
