"""Errors in the format of OpenAI's API: a status and a one-line message."""

import reprlib
from collections.abc import Sequence
from typing import Any

from ..data.vocabulary import shortened
from .batcher import ServerStoppedError
from .engine import BusyError
from .served import UnknownModelError

Document = dict[str, Any]


def error(message: str, kind: str = "invalid_request_error", code: str | None = None) -> Document:
    """The body of an error response."""
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def response(mistake: Exception) -> tuple[int, Document]:
    """The status and the body for any exception that a request may raise."""
    match mistake:
        case UnknownModelError():
            return 404, error(str(mistake), code="model_not_found")
        case BusyError():
            return 429, error(str(mistake), "rate_limit_error", "queue_full")
        case ServerStoppedError():
            return 503, error(str(mistake), "server_error", "stopped")
        case ValueError():
            return 400, error(str(mistake))
    return 500, error("internal server error: see the server log", "server_error")


def malformed(found: Sequence[Any]) -> str:
    """One line from pydantic's errors. For a field of several types, the error of the closest type is reported."""
    first = found[0]
    if first["type"] == "json_invalid":
        return f"the body is not JSON: {first['ctx']['error']} at character {first['loc'][-1]}"
    if first["type"] == "string_unicode" and len(first["loc"]) == 1:
        return f"a field name is not valid text: got {first['input']!r}; see /docs for the fields"
    if len(first["loc"]) == 1:
        return "the body is not a JSON object: send one, with Content-Type: application/json"
    nearest: dict[Any, Any] = {}
    for one in found:
        field = one["loc"][1]
        if field not in nearest or _nearness(one) > _nearness(nearest[field]):
            nearest[field] = one
    return "; ".join([*(_said(one) for one in list(nearest.values())[:3]), "see /docs for the fields"])


def unreadable(mistake: BaseException | None) -> str:
    """The message for a body that cannot be parsed at all: nested too deeply, not UTF-8, a number that is too long."""
    return f"the body is not JSON: got {shortened(' '.join(str(mistake).split()), 80)}; send a JSON object in UTF-8"


def missed(status: int, method: str, path: str) -> str:
    """The message for an unknown path or method."""
    what = f"no route at {shortened(path)}" if status == 404 else f"{shortened(path)} does not accept {method}"
    return f"{what}; see /docs for the routes"


def _said(one: Any) -> str:
    """The message for one field: what it got and what is allowed."""
    place, allowed = _place(one["loc"][1:]), one["msg"].replace("Input should be ", "allowed: ", 1)
    match one["type"]:
        case "extra_forbidden":
            return f"{place}: unknown field"
        case "missing":
            return f"{place}: field is missing"
    got = reprlib.repr(one["input"])  # fast and short for any input
    return f"{place}: got {got}, {allowed[0].lower()}{allowed[1:]}"


def _nearness(one: Any) -> tuple[bool, int]:
    """How close the input was: the right type is closer than a wrong one, and a nested error than one at the top."""
    return not one["type"].endswith("_type"), len(one["loc"])


def _place(parts: Sequence[int | str]) -> str:
    """The path of a field, without pydantic's names for its types, such as list[int]."""
    field, *rest = parts
    return ".".join([str(field), *(str(part) for part in rest if isinstance(part, int) or part.isidentifier())])
