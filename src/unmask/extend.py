"""Register your own parts by name: samplers, schedules, networks, methods, presets.

Your module registers them when it is imported; every command and function then treats them like the built-in ones. In
Python an import is enough; `unmask --use my_parts.py COMMAND …` imports it before the command runs. What was trained
with such a part needs it again to be loaded: the folder of a run names it, but nothing is imported on its behalf.
"""

import importlib
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any, TypeVar, get_args

from .configs import ADDED
from .core import Schedule
from .mistakes import fail, require
from .presets import PRESETS, Preset
from .run.config import METHODS, MethodConfig, NetworkConfig
from .sampling import LAWS, SAMPLERS, Frame, Sampler
from .sampling.samplers import KINDS, Schedules
from .training import Needs
from .training.md4 import SCHEDULES

__all__ = ["method", "network", "preset", "sampler", "schedule", "use"]

_T = TypeVar("_T")
_Run = TypeVar("_Run", bound=Callable[..., Iterator[Frame]])
_Class = TypeVar("_Class", bound=type)
_Make = TypeVar("_Make", bound=Callable[[], Preset])
_YOURS: set[tuple[str, str]] = set()
"""Parts added by the user, as (kind, name): these may be replaced, as when a notebook cell runs again; ours may not."""


def sampler(name: str, *, summary: str, law: str = "biased", **facts: Any) -> Callable[[_Run], _Run]:
    """Register a sampler: a function (predict, process, x, grid, streams, *, options…) that fills the masked positions
    of x and yields a `Frame` for each step. The default of an option determines its type. law: how the sampler changes
    the distribution of the model, one of `unmask.sampling.LAWS`; `facts` are other fields of `unmask.sampling.Sampler`,
    for example `schedules=ANY` from `unmask.sampling.samplers` for a sampler that GenMD4 can use as well.
    """
    require(law in LAWS, "unknown law", got=law, allowed=", ".join(LAWS), do='use "biased", which promises nothing')

    def add(run: _Run) -> _Run:
        made = Sampler(run, law, summary, **facts)
        known, of = isinstance(made.schedules, Schedules), "unmask.sampling.samplers"
        require(known, "unknown schedules", got=made.schedules, allowed="ANY, SCALAR, POLYNOMIAL", do=f"see {of}")
        kinds, do = ", ".join(kind.__name__ for kind in KINDS), "give it one: the default determines the type"
        for option, default in made.options.items():
            good = isinstance(default, KINDS)
            require(good, f"the option {option} has no default of a known kind", got=default, allowed=kinds, do=do)
        _add("sampler", SAMPLERS, name, made)
        return run

    return add


def schedule(name: str, alpha: Schedule) -> None:
    """Register a schedule for MD4 (`--schedule NAME`); `unmask.core.Custom` makes one from any decreasing function."""
    _add("schedule", SCHEDULES, name, lambda _: alpha)


def network(config: _Class) -> _Class:
    """Register a network by its configuration class: a frozen dataclass with at least `vocab_size`, `conditioning` and
    `build()`, which returns an `unmask.networks.Network`. It is selected in presets, or in Python through `RunConfig`.
    """
    _check_config("network", config, "vocab_size", "conditioning", "build")
    _add_config(config)
    return config


def method(name: str) -> Callable[[_Class], _Class]:
    """Register a training method (`--method NAME`) by its configuration class: a frozen dataclass derived from
    `unmask.training.Needs`, whose fields have defaults; `build(network)` returns an `unmask.training.Method`.
    """

    def add(config: _Class) -> _Class:
        _check_config("method", config, "build")
        derived = issubclass(config, Needs)
        require(derived, "this is not a method", got=config.__name__, allowed="a class from Needs", do="derive it")
        _add("method", METHODS, name, config)
        _add_config(config)
        return config

    return add


def preset(name: str) -> Callable[[_Make], _Make]:
    """Register a function that returns an `unmask.presets.Preset`, for `unmask train NAME`."""

    def add(make: _Make) -> _Make:
        _add("preset", PRESETS, name, make)
        return make

    return add


def use(module: str) -> None:
    """Import a module by name or from a file, so that it registers its parts."""
    path = Path(module)
    is_file, allowed = path.suffix == ".py", "a file, or the name of a module"
    require(path.is_file() or not is_file, "there is no such file", got=module, allowed=allowed, do="check the path")
    name, folder = (path.stem, path.parent) if is_file else (module, Path())
    sys.path.insert(0, str(folder.resolve()))  # as Python does for a script
    try:
        found = importlib.import_module(name)
    except (Exception, SystemExit) as error:  # whatever it raises must not end a command without a message
        if isinstance(error, ModuleNotFoundError) and f"{name}.".startswith(f"{error.name}."):
            fail("there is no such module", got=module, allowed=allowed, do="check the name")
        do = f"fix it: python -c 'import {name}' in its folder shows more"
        fail(f"{module} cannot be imported", got=_said(error), allowed="a module without errors", do=do)
    own = not is_file or Path(found.__file__ or "").resolve() == path.resolve()
    require(own, "another module has this name", got=module, allowed="a name of its own", do="rename the file")


def _said(error: BaseException) -> str:
    """What went wrong in a module, and where: the line that could not be parsed, or the last one that ran."""
    what = f"{type(error).__name__}: {error}".partition("\n")[0].removesuffix(": ")
    if isinstance(error, SyntaxError) and error.filename is not None:
        return f"line {error.lineno} of {error.filename}: {type(error).__name__}: {error.msg}"
    ran = traceback.extract_tb(error.__traceback__)[1:]
    own = [frame for frame in ran if frame.filename != importlib.__file__ and "<frozen " not in frame.filename]
    last = next((frame for frame in reversed(own) if frame.filename == own[0].filename), None)
    return what if last is None else f"line {last.lineno} of {last.filename}: {what}"


def _check_config(what: str, config: type, *needed: str) -> None:
    known = {*getattr(config, "__dataclass_fields__", ()), *dir(config)}
    missing = [name for name in needed if name not in known]
    got = config.__name__ + (f" without {', '.join(missing)}" if missing else "")
    allowed = f"a dataclass with {', '.join(needed)}"
    good = is_dataclass(config) and not missing
    require(good, f"this is not the configuration of a {what}", got=got, allowed=allowed, do="make it one")


def _add_config(config: type) -> None:
    """Add a configuration by class name, which run folders refer to; the name must be new, unless it is redefined."""
    name = config.__name__
    ours = {kind.__name__ for kind in (*get_args(NetworkConfig), *get_args(MethodConfig))}
    anew = name not in ADDED or ADDED[name].__module__ == config.__module__
    do = "rename the class"
    require(name not in ours and anew, "another configuration has this name", got=name, allowed="a new name", do=do)
    ADDED[name] = config


def _add(kind: str, table: dict[str, _T], name: str, part: Any) -> None:
    new = name not in table or (kind, name) in _YOURS
    require(new, f"there is already a {kind} of this name", got=name, allowed="another name", do="choose one")
    _YOURS.add((kind, name))
    table[name] = part
