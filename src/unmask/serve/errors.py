"""What went wrong, as OpenAI's clients read it: a status and one line."""

from collections.abc import Sequence
from typing import Any

from .batcher import StoppedError
from .engine import BusyError
from .served import UnknownModelError

Document = dict[str, Any]


def error(message: str, kind: str = "invalid_request_error", code: str | None = None) -> Document:
    """The document of an error."""
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def told(mistake: Exception) -> tuple[int, Document]:
    """The status and the document for whatever a request may run into."""
    match mistake:
        case UnknownModelError():
            return 404, error(str(mistake), code="model_not_found")
        case BusyError():
            return 429, error(str(mistake), "rate_limit_error", "queue_full")
        case StoppedError():
            return 503, error(str(mistake), "server_error", "stopped")
        case ValueError():
            return 400, error(str(mistake))
    return 500, error("the server has failed: its log says why", "server_error")


def malformed(found: Sequence[Any]) -> str:
    """One line from pydantic's errors. Of the kinds that a field may have, the nearest to what was sent is told."""
    first = found[0]
    if first["type"] == "json_invalid":
        return f"the body is not JSON: {first['ctx']['error']} at character {first['loc'][-1]}"
    if first["loc"] == ("body",):
        return "the body is not a JSON object: send one, with Content-Type: application/json"
    nearest: dict[Any, Any] = {}
    for one in found:
        field = one["loc"][1]
        if field not in nearest or _nearness(one) > _nearness(nearest[field]):
            nearest[field] = one
    return "; ".join(f"{_place(one['loc'][1:])}: {one['msg']}" for one in list(nearest.values())[:3])


def _nearness(one: Any) -> tuple[bool, int]:
    """A value of the right kind is nearer than one of another, and what is wrong deep inside than what is at once."""
    return not one["type"].endswith("_type"), len(one["loc"])


def _place(parts: Sequence[int | str]) -> str:
    """Without pydantic's names for the kinds of a field, such as list[int]."""
    field, *rest = parts
    return ".".join([str(field), *(str(part) for part in rest if isinstance(part, int) or part.isidentifier())])
