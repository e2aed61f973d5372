"""Tables for the cards of the shipped models."""

from typing import Any

from .form import source


def shipped_bound(result: dict[str, Any]) -> str:
    """The held-out bound in every unit that applies."""
    found = result["result"]
    units = ("bits_per_byte", "bits_per_character", "bits_per_token")
    lines = ["| | held out |", "|---|---|", f"| tokens | {found['tokens']:,} in {found['sequences']:,} sequences |"]
    lines += [
        f"| {unit.replace('_', ' ')} | {found[unit]['mean']:.3f} ± {found[unit]['error']:.3f} |"
        for unit in units
        if found.get(unit)
    ]
    return "\n".join([*lines, "", source(result)])


def shipped_writing(result: dict[str, Any]) -> str:
    """Samples as quotations, and gaps with their fillings."""
    lines = []
    for flags, samples in result["samples"].items():
        lines += [f"`unmask sample demo -n 2 {flags}`", ""]
        for text in samples:
            lines += [*(f"> {line}".rstrip() for line in text.strip().splitlines()), ""]
    for text, filled in result["filled"].items():
        lines += [f"`{text}`", "", *(f"- {answer}" for answer in filled), ""]
    return "\n".join([*lines, source(result)])


def vocabulary_choice(result: dict[str, Any]) -> str:
    """One row per set-up."""
    lines = ["| vocabulary and network | parameters | bits per byte, held out |", "|---|---|---|"]
    lines += [
        f"| {r['what']} | {r['parameters'] / 1e6:.1f} M | {r['bits_per_byte']['mean']:.3f} ± "
        f"{r['bits_per_byte']['error']:.3f} |"
        for r in result["rows"]
    ]
    return "\n".join([*lines, "", result["note"], source(result)])
