"""What every request passes: the key, the size of its body, the count. Plain ASGI, so that streams stay streams."""

import json
import secrets
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from .metrics import Metrics

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

_GUARDED = ("/v1/", "/api/")
"""What needs the key; health, figures and the pages hold no secret."""


class TooLargeError(Exception):
    """A body beyond the limit."""


def error(message: str, kind: str, code: str | None = None) -> dict[str, Any]:
    """An error as OpenAI's clients read it."""
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


class Guard:
    """Around the app."""

    def __init__(self, app: App, key: str | None, largest: int, metrics: Metrics):
        self._app, self._key, self._largest, self._metrics = app, key, largest, metrics

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start, status = time.perf_counter(), 0

        async def counted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._checked(scope, receive, counted)
        finally:
            path = getattr(scope.get("route"), "path", "other")
            self._metrics.requests.labels(path, str(status)).inc()
            self._metrics.seconds.labels(path).observe(time.perf_counter() - start)

    async def _checked(self, scope: Message, receive: Receive, send: Send) -> None:
        headers = {name.decode("latin-1").lower(): value for name, value in scope["headers"]}
        if scope["path"].startswith(_GUARDED) and not self._allowed(headers):
            await _answer(send, 401, error("wrong or missing API key", "invalid_request_error", "invalid_api_key"))
            return
        length = headers.get("content-length", b"0")
        if not length.isdigit() or int(length) > self._largest:
            await self._refuse(send)
            return
        seen, refused = 0, False

        async def limited() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > self._largest:
                raise TooLargeError
            return message

        async def watched(message: Message) -> None:
            """The app may take our exception for a mistake of its own: whatever it says then, we say this."""
            nonlocal refused
            if seen <= self._largest:
                await send(message)
            elif not refused:
                refused = True
                await self._refuse(send)

        await self._app(scope, limited, watched)

    def _allowed(self, headers: dict[str, bytes]) -> bool:
        if self._key is None:
            return True
        given = headers.get("authorization", b"").removeprefix(b"Bearer ").strip()
        return secrets.compare_digest(given, self._key.encode())

    async def _refuse(self, send: Send) -> None:
        await _answer(
            send, 413, error(f"the body is too large: allowed is {self._largest:,} bytes", "invalid_request_error")
        )


async def _answer(send: Send, status: int, document: dict[str, Any]) -> None:
    body = json.dumps(document).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
