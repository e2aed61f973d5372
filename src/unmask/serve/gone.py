"""Responses for clients that may disconnect."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing
from typing import Any, TypeVar

from fastapi import Request
from fastapi.responses import JSONResponse, Response, StreamingResponse

from .errors import Document, response

_T = TypeVar("_T")
_LOOK = 0.2
"""Seconds between checks that the client is still connected."""
_NOBODY = 499
"""The status of a response to a client that has disconnected."""


class _GoneError(Exception):
    """The client has disconnected."""


async def unless_gone(request: Request, work: Coroutine[Any, Any, Any]) -> Response:
    """Return the result of `work` as JSON; cancel the work if the client disconnects."""
    try:
        return JSONResponse(await _while_there(request, work))
    except _GoneError:
        return Response(status_code=_NOBODY)


async def streamed(request: Request, events: AsyncGenerator[str], failed: Callable[[Document], str]) -> Response:
    """Stream server-sent events until the client disconnects. An error before the first event is raised; a later one
    is sent as the event that `failed` makes of it.
    """
    try:
        first = await _while_there(request, _next(events))
    except _GoneError:
        return Response(status_code=_NOBODY)

    async def all_of_them() -> AsyncGenerator[str]:
        async with aclosing(events):
            yield first
            try:
                async for event in events:
                    yield event
            except Exception as mistake:
                status, document = response(mistake)
                if status == 500:
                    logging.getLogger(__name__).exception("a stream has failed")
                yield failed(document)

    return StreamingResponse(all_of_them(), media_type="text/event-stream", headers={"Cache-Control": "no-store"})


async def _next(events: AsyncGenerator[str]) -> str:
    return await anext(events)


async def _while_there(request: Request, work: Coroutine[Any, Any, _T]) -> _T:
    task = asyncio.ensure_future(work)
    try:
        while not (await asyncio.wait([task], timeout=_LOOK))[0]:
            if await request.is_disconnected():
                raise _GoneError
        return task.result()
    finally:
        task.cancel()
