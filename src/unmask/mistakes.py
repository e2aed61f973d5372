"""How unmask reports an error to the user: one sentence with what, got, allowed, and what to do."""

import difflib
import importlib
from collections.abc import Iterable
from typing import Any, NoReturn


def fail(what: str, *, got: object, allowed: str, do: str) -> NoReturn:
    """Raise the one kind of error of this package: what is wrong, what was given, what is allowed, what to do."""
    raise ValueError(f"{what}: got {got}, allowed: {allowed}; {do}")


def require(ok: bool, what: str, *, got: object, allowed: str, do: str) -> None:
    """`fail` unless `ok`."""
    if not ok:
        fail(what, got=got, allowed=allowed, do=do)


def first_line(error: BaseException) -> str:
    """The message of a library in one line of at most 160 characters; the kind of error if it has none."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)[:160]


def said(error: Exception) -> str:
    """The message of an error for the user; for a system error on a file, with its name and what to do."""
    if not isinstance(error, OSError) or error.filename is None or error.strerror is None:
        return str(error)
    got, do = _FILES.get(type(error), (error.strerror.lower(), "fix that, or name another file"))
    return f"{error.filename} cannot be used: got {got}, allowed: a usable file; {do}"


_FILES: dict[type[OSError], tuple[str, str]] = {
    FileNotFoundError: ("no such file", "check the path"),
    IsADirectoryError: ("a folder", "name a file in it"),
    PermissionError: ("no permission", "change its permissions, or name another file"),
}
"""What was found, and what to do."""


def flag(field: str) -> str:
    """A field name as a command-line option."""
    return f"--{field.replace('_', '-')}"


def nearest(name: str, known: Iterable[str], otherwise: str) -> str:
    """What to do about an unknown name: suggest similar known names, else give other advice."""
    near = difflib.get_close_matches(name, list(known), 3)
    return f"did you mean {' or '.join(near)}?" if near else otherwise


def extra(module: str, name: str, purpose: str) -> Any:
    """Import a module of an optional extra, or say which extra to install."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError:
        fail(
            f"{purpose} needs the package {module.split('.')[0]}",
            got="no such package",
            allowed=f"the extra {name}",
            do=f'pip install "unmask[{name}]"',
        )
