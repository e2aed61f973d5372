"""Formatting shared by all tables."""

import math
from collections.abc import Sequence
from typing import Any


def source(result: dict[str, Any]) -> str:
    """The command, seed, versions, machine, duration and date behind the figures."""
    versions = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    taken = "" if result["duration_s"] is None else f"{result['duration_s']:,.0f} s, "
    return f"`{result['command']}`, seed {result['seed']}, {versions}, {result['device']}, {taken}{result['date']}."


def sources(results: Sequence[dict[str, Any]], command: str) -> str:
    """The same for several results that differ only in the arguments of their commands."""
    first = results[0]
    versions = ", ".join(f"{name} {version}" for name, version in first["versions"].items())
    took = _range([f"{r['duration_s']:,.0f}" for r in sorted(results, key=lambda r: r["duration_s"])])
    dates = _range(sorted({r["date"] for r in results}))
    return f"{command}, {versions}, {first['device']}, {took} s each with its evaluation, {dates}."


def _range(values: list[str]) -> str:
    """The first and the last of sorted values."""
    return values[0] if values[0] == values[-1] else f"{values[0]} to {values[-1]}"


def with_error(figure: dict[str, float], digits: int = 3, scale: float = 1.0) -> str:
    """A mean with its standard error."""
    return f"{scale * figure['mean']:.{digits}f} ± {scale * figure['error']:.{digits}f}"


def share(value: float, error: float) -> str:
    """A share with its standard error in percent, with as many digits as the error needs."""
    digits = max(1, -math.floor(math.log10(error)) - 2) if error > 0 else 1
    return f"{value:.{digits}%} ± {error:.{digits}%}"
