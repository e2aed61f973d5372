"""unmask: masked diffusion models on any discrete data — exact, fast, in one command.

`unmask.core` holds the mathematics; `unmask --help` lists the commands.
"""

from importlib.metadata import version as _version

__version__ = _version("unmask")
__all__ = ["__version__"]
