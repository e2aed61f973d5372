"""How unmask tells a user what is wrong: one sentence with what, got, allowed, and what to do."""

import difflib
import importlib
from collections.abc import Iterable
from typing import Any, NoReturn


def fail(what: str, *, got: object, allowed: str, do: str) -> NoReturn:
    """Raise the one error of this package: what is wrong, what was got, what is allowed, what to do."""
    raise ValueError(f"{what}: got {got}, allowed: {allowed}; {do}")


def require(ok: bool, what: str, *, got: object, allowed: str, do: str) -> None:
    """`fail` unless `ok`."""
    if not ok:
        fail(what, got=got, allowed=allowed, do=do)


def said(error: Exception) -> str:
    """What an error says to a user: for what the system says of a file, which file it is and what to do."""
    if not isinstance(error, OSError) or error.filename is None or error.strerror is None:
        return str(error)
    got, do = _FILES.get(type(error), (error.strerror.lower(), "mend that, or name another"))
    return f"{error.filename} cannot be used: got {got}, allowed: a file that can be; {do}"


_FILES: dict[type[OSError], tuple[str, str]] = {
    FileNotFoundError: ("no such file", "check the path"),
    IsADirectoryError: ("a folder", "name a file in it"),
    PermissionError: ("no permission", "change who may use it, or name another"),
}
"""What was got, and what to do."""


def flag(field: str) -> str:
    """How a user writes the name of a field."""
    return f"--{field.replace('_', '-')}"


def nearest(name: str, known: Iterable[str], otherwise: str) -> str:
    """What to do about a name that is none of the known: those that were probably meant, else something else."""
    near = difflib.get_close_matches(name, list(known), 3)
    return f"did you mean {' or '.join(near)}?" if near else otherwise


def extra(module: str, name: str, purpose: str) -> Any:
    """Import a module of an optional extra, or say which one to install."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError:
        fail(
            f"{purpose} needs the package {module.split('.')[0]}",
            got="no such package",
            allowed=f"the extra {name}",
            do=f'pip install "unmask[{name}]"',
        )
