"""What went wrong, as OpenAI's clients read it: a status and one line."""

import reprlib
from collections.abc import Sequence
from typing import Any

from ..data.vocabulary import shortened
from .batcher import ServerStoppedError
from .engine import BusyError
from .served import UnknownModelError

Document = dict[str, Any]


def error(message: str, kind: str = "invalid_request_error", code: str | None = None) -> Document:
    """The document of an error."""
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def response(mistake: Exception) -> tuple[int, Document]:
    """The status and the document for whatever a request may run into."""
    match mistake:
        case UnknownModelError():
            return 404, error(str(mistake), code="model_not_found")
        case BusyError():
            return 429, error(str(mistake), "rate_limit_error", "queue_full")
        case ServerStoppedError():
            return 503, error(str(mistake), "server_error", "stopped")
        case ValueError():
            return 400, error(str(mistake))
    return 500, error("the server has failed: its log says why", "server_error")


def malformed(found: Sequence[Any]) -> str:
    """One line from pydantic's errors. Of the kinds that a field may have, the nearest to what was sent is told."""
    first = found[0]
    if first["type"] == "json_invalid":
        return f"the body is not JSON: {first['ctx']['error']} at character {first['loc'][-1]}"
    if first["type"] == "string_unicode" and len(first["loc"]) == 1:
        return f"a field has a name that is no text: got {first['input']!r}; /docs lists the fields"
    if len(first["loc"]) == 1:
        return "the body is not a JSON object: send one, with Content-Type: application/json"
    nearest: dict[Any, Any] = {}
    for one in found:
        field = one["loc"][1]
        if field not in nearest or _nearness(one) > _nearness(nearest[field]):
            nearest[field] = one
    return "; ".join([*(_said(one) for one in list(nearest.values())[:3]), "/docs says what each field takes"])


def unreadable(mistake: BaseException | None) -> str:
    """For a body that could not even be taken for JSON: nested without end, not UTF-8, an endless number."""
    return f"the body is not JSON: got {shortened(' '.join(str(mistake).split()), 80)}; send a JSON object in UTF-8"


def missed(status: int, method: str, path: str) -> str:
    """For what is not served, or not in this way."""
    what = f"nothing is at {shortened(path)}" if status == 404 else f"{shortened(path)} takes no {method}"
    return f"{what}; /docs lists what there is"


def _said(one: Any) -> str:
    """Of one field: what was got and what is allowed."""
    place, allowed = _place(one["loc"][1:]), one["msg"].replace("Input should be ", "allowed: ", 1)
    match one["type"]:
        case "extra_forbidden":
            return f"{place}: there is no such field"
        case "missing":
            return f"{place}: it is missing"
    got = reprlib.repr(one["input"])  # quick and short whatever it is
    return f"{place}: got {got}, {allowed[0].lower()}{allowed[1:]}"


def _nearness(one: Any) -> tuple[bool, int]:
    """A value of the right kind is nearer than one of another, and what is wrong deep inside than what is at once."""
    return not one["type"].endswith("_type"), len(one["loc"])


def _place(parts: Sequence[int | str]) -> str:
    """Without pydantic's names for the kinds of a field, such as list[int]."""
    field, *rest = parts
    return ".".join([str(field), *(str(part) for part in rest if isinstance(part, int) or part.isidentifier())])
