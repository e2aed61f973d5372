"""Middleware for every request: host, key, body size and metrics. Plain ASGI, so that streams are not buffered."""

import asyncio
import json
import re
import secrets
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from ..mistakes import require
from .batcher import ServerStoppedError
from .errors import Document, error, response
from .metrics import Metrics

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

_GUARDED = ("/v1/", "/api/")
"""Paths that require the key; health, metrics and the pages contain nothing secret."""


class TooLargeError(Exception):
    """The body exceeds the limit."""


def checked(key: str | None) -> str | None:
    """The key without surrounding whitespace, such as the newline of the file that it was read from."""
    if key is None:
        return None
    good = len(key.split()) == 1
    got = "an empty key or one with spaces"  # the key itself stays out of the message
    require(good, "the API key is not one word", got=got, allowed="a key without spaces", do="change UNMASK_API_KEY")
    return key.strip()


class Guard:
    """Wraps the app. hosts: the allowed host names; None allows any."""

    def __init__(self, app: App, key: str | None, hosts: list[str] | None, largest: int, metrics: Metrics):
        self._app, self._key, self._hosts, self._largest, self._metrics = app, key, hosts, largest, metrics

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
        except asyncio.CancelledError:  # a request that got this far is cancelled only at shutdown
            if not status:
                await _answer(counted, *response(ServerStoppedError()))
        finally:
            path = getattr(scope.get("route"), "path", "other")
            self._metrics.requests.labels(path, str(status)).inc()
            self._metrics.seconds.labels(path).observe(time.perf_counter() - start)

    async def _checked(self, scope: Message, receive: Receive, send: Send) -> None:
        headers = {name.decode("latin-1").lower(): value for name, value in scope["headers"]}
        if not self._named(headers):
            await _answer(send, 400, error("unknown host name: use the server's own address"))
            return
        if scope["path"].startswith(_GUARDED) and not self._allowed(headers):
            await _answer(send, 401, error("wrong or missing API key", code="invalid_api_key"))
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
            """The app may handle our exception as an error of its own: replace whatever it sends by a 413."""
            nonlocal refused
            if seen <= self._largest:
                await send(message)
            elif not refused:
                refused = True
                await self._refuse(send)

        await self._app(scope, limited, watched)

    def _named(self, headers: dict[str, bytes]) -> bool:
        """Whether the Host header is one of ours: another site may have pointed its own name at our address."""
        name = re.sub(r":\d*$", "", headers.get("host", b"").decode("latin-1")).lower()
        return self._hosts is None or name in self._hosts

    def _allowed(self, headers: dict[str, bytes]) -> bool:
        if self._key is None:
            return True
        scheme, _, given = headers.get("authorization", b"").partition(b" ")
        return scheme.lower() == b"bearer" and secrets.compare_digest(given.strip(), self._key.encode())

    async def _refuse(self, send: Send) -> None:
        await _answer(send, 413, error(f"the request body is too large; allowed: at most {self._largest:,} bytes"))


async def _answer(send: Send, status: int, document: Document) -> None:
    body = json.dumps(document).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
