"""Work for a client that may go away."""

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from contextlib import aclosing
from typing import Any

from fastapi import Request
from fastapi.responses import JSONResponse, Response, StreamingResponse

_LOOK = 0.2
"""Seconds between looks whether the client is still there."""
_NOBODY = 499
"""The status of an answer that nobody reads."""


async def unless_gone(request: Request, work: Coroutine[Any, Any, Any]) -> Response:
    """The result of `work` as JSON; it is given up when the client goes away."""
    task = asyncio.ensure_future(work)
    try:
        while not (await asyncio.wait([task], timeout=_LOOK))[0]:
            if await request.is_disconnected():
                return Response(status_code=_NOBODY)
        return JSONResponse(task.result())
    finally:
        task.cancel()


async def streamed(events: AsyncGenerator[str]) -> Response:
    """Server-sent events as they come, ended when the client goes away. What is wrong is said before they begin."""
    first = await anext(events)

    async def all_of_them() -> AsyncGenerator[str]:
        async with aclosing(events):
            yield first
            async for event in events:
                yield event

    return StreamingResponse(all_of_them(), media_type="text/event-stream", headers={"Cache-Control": "no-store"})
