"""Write the tables of the documents from the JSON under `results/`.

A table stands between `<!-- table NAME -->` and `<!-- end -->` in a Markdown file; `make results` rewrites it.

    python -m benchmarks.tables
"""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .record import RESULTS

ROOT = Path(__file__).parent.parent
PLACE = re.compile(r"(<!-- table (?P<name>\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def estimator_variance(result: dict[str, Any]) -> str:
    """One row per estimator, one pair of columns per chain."""
    chains = result["chains"]
    lines = [
        "| estimator | " + " | ".join(f"{c['chain']}: sd | variance reduction (95 %)" for c in chains) + " |",
        "|---" * (1 + 2 * len(chains)) + "|",
    ]
    for rows in zip(*(c["rows"] for c in chains), strict=True):
        cells = (
            f"{r['sd_bits_per_letter']:.4f} | {r['variance_reduction']:.1f} "
            f"({r['variance_reduction_95'][0]:.1f}–{r['variance_reduction_95'][1]:.1f})"
            for r in rows
        )
        lines.append(f"| {rows[0]['estimator']} | " + " | ".join(cells) + " |")
    return "\n".join([*lines, "", source(result)])


def source(result: dict[str, Any]) -> str:
    """Where the figures come from."""
    versions = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    return f"`{result['command']}`, seed {result['seed']}, {versions}, {result['device']}, {result['date']}."


TABLES: dict[str, Callable[[dict[str, Any]], str]] = {"estimator_variance": estimator_variance}


def filled(text: str) -> str:
    """The text with each table written anew."""

    def fill(place: re.Match[str]) -> str:
        name = place["name"]
        return f"{place[1]}{TABLES[name](json.loads((RESULTS / f'{name}.json').read_text()))}\n{place[3]}"

    return PLACE.sub(fill, text)


def documents() -> list[Path]:
    """The Markdown files that may hold tables."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


if __name__ == "__main__":
    for document in documents():
        document.write_text(filled(document.read_text()))
