"""What all tables share."""

from typing import Any


def source(result: dict[str, Any]) -> str:
    """Where the figures come from."""
    versions = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    return f"`{result['command']}`, seed {result['seed']}, {versions}, {result['device']}, {result['date']}."


def with_error(figure: dict[str, float], digits: int = 3, scale: float = 1.0) -> str:
    """A mean with its standard error."""
    return f"{scale * figure['mean']:.{digits}f} ± {scale * figure['error']:.{digits}f}"
