"""The README's table: one line per finding."""

from typing import Any

from .form import with_error

Result = dict[str, Any]


def highlights(
    record: Result,
    learned: Result,
    plain: Result,
    grids: Result,
    pixels: Result,
    text: Result,
    counts: Result,
    chorales: Result,
    valid: Result,
) -> str:
    """What was asked, the figure, and where it is explained."""
    rows = (
        (
            f"text8, {record['budget_s'] / 60:.0f} minutes of one GPU ({record['device']})",
            f"{with_error(record['result']['bits_per_character'])} bits per character of the whole test split",
            "text8-in-ten-minutes",
        ),
        (
            f"MD4 and GenMD4 on text8 after {learned['steps']:,} steps each",
            " and ".join(with_error(r["result"]["bits_per_character"]) for r in (plain, learned)),
            "md4-and-genmd4-on-text8",
        ),
        (
            "digits in 8 steps: uniform and cosine grid",
            " and ".join(with_error(_first(grids, way)["frechet"], 2) for way in ("uniform", "cosine")) + " (Fréchet)",
            "schedules-and-grids",
        ),
        (
            f"CIFAR-10, the paper's U-Net, {pixels['budget_s'] / 60:.0f} minutes",
            f"{with_error(pixels['result']['bits_per_dimension'])} bits per dimension of the whole test split",
            "cifar-10-in-ten-minutes",
        ),
        (
            "GPT-2 size, ten minutes of books: bits per token of a book it has not read, and of the best n-gram model",
            " and ".join(with_error(figure) for figure in _held_out(text, counts)),
            "a-gpt-2-of-books",
        ),
        (
            "Bach's chorales: bits per note, and those of the best n-gram model",
            " and ".join(with_error(figure) for figure in _beside(chorales["groups"]["all"])),
            "other-data",
        ),
        ("molecules", f"{valid['valid']['value']:.1%} valid, {valid['novel']['value']:.1%} of them new", "other-data"),
    )
    lines = [f"| [{what}](docs/results.md#{where}) | {figure} |" for what, figure, where in rows]
    return "\n".join(["| what | figure |", "|---|---|", *lines])


def _first(grids: Result, grid: str) -> Result:
    """The fewest steps with a class, linear schedule."""
    rows = [r for r in grids["rows"] if r["conditional"] and r["way"] == f"linear, {grid} grid"]
    return min(rows, key=lambda r: r["steps"])


def _held_out(text: Result, counts: Result) -> tuple[Result, Result]:
    """The bound of continuous time, and the bits of the best counts."""
    (own,) = (bound for bound in text["held_out"] if bound["steps"] is None)
    return own["bits_per_token"], min(counts["sets"]["held out"], key=lambda n: n["mean"])


def _beside(group: Result) -> tuple[Result, Result]:
    """The model's bits, and those of the best counts."""
    return group["bits_per_token"], min(group["n_grams"], key=lambda n: n["mean"])
