"""One line per finding, for the README and for the head of the page that explains them."""

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
    """The same at the head of the page itself."""
    return highlights(*results, page="")


def _text8(subwords: Result, characters: Result) -> Row:
    first, second = (_by_masks(r["result"]["bits_per_character"]) for r in (subwords, characters))
    return (
        f"text8, {subwords['budget_s'] / 60:.0f} minutes of one GPU ({subwords['device']})",
        f"{first} bits per character of the whole test split by subwords, {second} by characters (± masks alone)",
        "text8-in-ten-minutes",
    )


def _methods(learned: Result, plain: Result) -> Row:
    return (
        f"MD4 and GenMD4 on text8 after {learned['steps']:,} steps each",
        " and ".join(_by_masks(r["result"]["bits_per_character"]) for r in (plain, learned)) + " (± masks alone)",
        "md4-and-genmd4-on-text8",
    )


def _digits(grids: Result) -> Row:
    """The fewest steps with a class, linear schedule."""
    rows = [r for r in grids["rows"] if r["conditional"]]
    first = [
        min((r for r in rows if r["way"] == f"linear, {grid} grid"), key=lambda r: r["steps"])
        for grid in ("uniform", "cosine")
    ]
    figure = " and ".join(with_error(row["frechet"], 2) for row in first)
    return (
        f"digits by class in {first[0]['steps']} steps: uniform and cosine grid",
        f"{figure} (Fréchet distance of features, {grids['samples']} samples)",
        "schedules-and-grids",
    )


def _pixels(record: Result) -> Row:
    return (
        f"CIFAR-10, the paper's U-Net, {record['budget_s'] / 60:.0f} minutes",
        f"{with_error(record['result']['bits_per_dimension'])} bits per dimension of the whole test split",
        "cifar-10-in-ten-minutes",
    )


def _books(text: Result, counts: Result) -> Row:
    (own,) = (bound for bound in text["held_out"] if bound["steps"] is None)
    return (
        "GPT-2 size, ten minutes of books: bits per token of a book it has not read, and of the best n-gram model",
        _beside(own["bits_per_token"], counts["sets"]["held out"]),
        "a-gpt-2-of-books",
    )


def _written(result: Result) -> Row:
    """With the most calls: a token at a time."""
    longest, size = max(result["rows"], key=lambda r: r["steps"]), result["text"]["bytes"]
    bound = result["bound"]
    return (
        "held-out text as a file that can be read again, and its bound (± masks alone), bits per byte",
        f"{8 * longest['file'] / size:.3f}, {8 * longest['code'] / size:.3f} without its header, "
        f"and {_by_masks(bound)}",
        "the-bound-as-a-file",
    )


def _chorales(result: Result) -> Row:
    group = result["groups"]["all"]
    return (
        "Bach's chorales: bits per note, and those of the best n-gram model",
        _beside(group["bits_per_token"], group["n_grams"]),
        "other-data",
    )


def _molecules(valid: Result) -> Row:
    good, new = (share(valid[name]["value"], valid[name]["error"]) for name in ("valid", "novel"))
    return "molecules", f"{good} valid, {new} of them new", "other-data"


def _by_masks(figure: Result) -> str:
    """For the very text that was measured: only the masks are chance."""
    return f"{figure['mean']:.3f} ± {figure['monte_carlo']:.3f}"


def _beside(figure: Result, orders: list[Result]) -> str:
    """A model's bits, and those of the best counts."""
    return " and ".join(map(with_error, (figure, min(orders, key=lambda n: n["mean"]))))


ROWS: tuple[tuple[Callable[..., Row], tuple[str, ...]], ...] = (
    (_text8, ("speedrun/subwords-10min-0", "speedrun/chars-10min-0")),
    (_methods, ("genmd4/genmd4-2300-0", "genmd4/md4-2300-0")),
    (_digits, ("grids_digits",)),
    (_pixels, ("cifar10/md4-10min-0",)),
    (_books, ("text/books", "text/books-counts")),
    (_written, ("compression",)),
    (_chorales, ("other_data/chorales",)),
    (_molecules, ("other_data/validity",)),
)
"""How each is made, and from which results."""
NEEDED = tuple(name for _, names in ROWS for name in names)
