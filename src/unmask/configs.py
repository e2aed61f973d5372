"""Configurations ↔ JSON: plain dataclasses to a readable document and back, with every error named."""

from dataclasses import fields, is_dataclass
from typing import Any, get_args, get_type_hints

from .mistakes import fail, nearest

ADDED: dict[str, Any] = {}
"""Configuration classes registered through `unmask.extend`, by class name."""
YOURS = "choose one of them, or name the module that defines it: unmask --use MODULE …"
"""What to do about a part that may be the user's own."""


def to_json(config: Any) -> Any:
    """A dataclass as a dict, with its class name under "kind"; tuples become lists."""
    if is_dataclass(config):
        return {"kind": type(config).__name__} | {f.name: to_json(getattr(config, f.name)) for f in fields(config)}
    if isinstance(config, tuple | list):
        return [to_json(value) for value in config]
    return config


def from_json(kind: Any, document: Any) -> Any:
    """A dataclass of one of the kinds, from the output of `to_json`; where there is a choice, added kinds count too."""
    kinds: dict[str, Any] = {k.__name__: k for k in (get_args(kind) or (kind,)) if is_dataclass(k)}  # type: ignore[union-attr]
    if len(kinds) > 1:
        kinds |= {name: cls for name, cls in ADDED.items() if name not in kinds}  # unmask's own take precedence
    if isinstance(document, list):
        return tuple(from_json(None, value) for value in document)
    if not kinds or not isinstance(document, dict):
        return document
    cls = kinds.get(document.get("kind", ""))
    if cls is None:
        fail("unknown kind of configuration", got=document.get("kind"), allowed=", ".join(kinds), do=YOURS)
    known = get_type_hints(cls)
    for name in document:
        if name != "kind" and name not in known:
            do = nearest(name, known, "remove it")
            fail(f"{cls.__name__} has no field {name!r}", got=name, allowed=", ".join(known), do=do)
    return cls(**{name: from_json(known[name], value) for name, value in document.items() if name != "kind"})


def differences(old: Any, new: Any, path: str = "") -> list[str]:
    """The fields in which two JSON documents differ, as "path: old → new"."""
    if isinstance(old, dict) and isinstance(new, dict):
        keys = {**old, **new}
        return [d for key in keys for d in differences(old.get(key), new.get(key), f"{path}.{key}" if path else key)]
    return [] if old == new else [f"{path}: {old} → {new}"]
