"""Parts of your own, each under a name: samplers, schedules, networks, methods, presets.

A module of yours adds them when it is imported; then every command and every function knows them as its own. In Python
an import is enough; `unmask --use my_parts.py COMMAND …` imports it before the command runs. What was trained with such
a part needs it again to be loaded: the folder of a run names it, and nothing is imported because a folder says so.
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
"""What was added, as (kind, name): that may be replaced, when a cell of a notebook runs again; what is ours may not."""


def sampler(name: str, *, summary: str, law: str = "biased", **facts: Any) -> Callable[[_Run], _Run]:
    """A function (predict, process, x, grid, streams, *, options…) that fills the masked positions of x, and yields a
    `Frame` for each step. The default of an option says of which kind it is. law: what the sampler does to the law of
    the model, one of `unmask.sampling.LAWS`; `facts` are other fields of `unmask.sampling.Sampler`, for example
    `schedules=ANY` from `unmask.sampling.samplers` for one that GenMD4 can use as well.
    """
    require(law in LAWS, "unknown law", got=law, allowed=", ".join(LAWS), do='"biased" promises nothing')

    def add(run: _Run) -> _Run:
        made = Sampler(run, law, summary, **facts)
        known, of = isinstance(made.schedules, Schedules), "unmask.sampling.samplers"
        require(known, "unknown schedules", got=made.schedules, allowed="ANY, SCALAR, POLYNOMIAL", do=f"see {of}")
        kinds, do = ", ".join(kind.__name__ for kind in KINDS), "give it one: only the default says what may be given"
        for option, default in made.options.items():
            good = isinstance(default, KINDS)
            require(good, f"the option {option} has no default of a known kind", got=default, allowed=kinds, do=do)
        _add("sampler", SAMPLERS, name, made)
        return run

    return add


def schedule(name: str, alpha: Schedule) -> None:
    """A schedule for MD4 (`--schedule NAME`): `unmask.core.Custom` makes one from any decreasing function."""
    _add("schedule", SCHEDULES, name, lambda _: alpha)


def network(config: _Class) -> _Class:
    """A network, by the class of its configuration: a frozen dataclass with at least `vocab_size`, `conditioning`, and
    `build()`, which gives an `unmask.networks.Network`. Presets, and `RunConfig` in Python, are where it is chosen.
    """
    _check_config("network", config, "vocab_size", "conditioning", "build")
    _add_config(config)
    return config


def method(name: str) -> Callable[[_Class], _Class]:
    """What a network is trained on (`--method NAME`), by the class of its configuration: a frozen dataclass derived
    from `unmask.training.Needs`, whose fields have defaults; `build(network)` gives an `unmask.training.Method`.
    """

    def add(config: _Class) -> _Class:
        _check_config("method", config, "build")
        derived = issubclass(config, Needs)
        require(derived, "this is no method", got=config.__name__, allowed="a class from Needs", do="derive it")
        _add("method", METHODS, name, config)
        _add_config(config)
        return config

    return add


def preset(name: str) -> Callable[[_Make], _Make]:
    """A function that gives an `unmask.presets.Preset`, for `unmask train NAME`."""

    def add(make: _Make) -> _Make:
        _add("preset", PRESETS, name, make)
        return make

    return add


def use(module: str) -> None:
    """Import a module by its name, or from a file, so that it adds its parts."""
    path = Path(module)
    is_file, allowed = path.suffix == ".py", "a file, or the name of a module"
    require(path.is_file() or not is_file, "there is no such file", got=module, allowed=allowed, do="check the path")
    name, folder = (path.stem, path.parent) if is_file else (module, Path())
    sys.path.insert(0, str(folder.resolve()))  # as Python does for a script
    try:
        found = importlib.import_module(name)
    except (Exception, SystemExit) as error:  # whatever is in it, it must not end a command without a word
        if isinstance(error, ModuleNotFoundError) and f"{name}.".startswith(f"{error.name}."):
            fail("there is no such module", got=module, allowed=allowed, do="check the name")
        do = f"mend it: python -c 'import {name}' in its folder says more"
        fail(f"{module} cannot be imported", got=_said(error), allowed="a module without errors", do=do)
    own = not is_file or Path(found.__file__ or "").resolve() == path.resolve()
    require(own, "another module has this name", got=module, allowed="a name of its own", do="rename the file")


def _said(error: BaseException) -> str:
    """What went wrong in a module, and where: the line that could not be read, or the last of it that ran."""
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
    require(good, f"this is no configuration of a {what}", got=got, allowed=allowed, do="make it one")


def _add_config(config: type) -> None:
    """Under the name of its class, by which the folder of a run knows it: one of its own, unless it is defined anew."""
    name = config.__name__
    ours = {kind.__name__ for kind in (*get_args(NetworkConfig), *get_args(MethodConfig))}
    anew = name not in ADDED or ADDED[name].__module__ == config.__module__
    do = "rename the class"
    require(name not in ours and anew, "another configuration has this name", got=name, allowed="a new one", do=do)
    ADDED[name] = config


def _add(kind: str, table: dict[str, _T], name: str, part: Any) -> None:
    new = name not in table or (kind, name) in _YOURS
    require(new, f"there is a {kind} of this name", got=name, allowed="another name", do="choose one")
    _YOURS.add((kind, name))
    table[name] = part
