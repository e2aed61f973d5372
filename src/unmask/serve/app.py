"""The web application: routes, one-line errors and the studio's files."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, PlainTextResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException

from unmask import __version__

from ..run import Model
from . import completions, errors, studio_api
from .batcher import ServerStoppedError
from .engine import BusyError, Engine, Limits
from .guard import Guard, checked
from .metrics import Metrics
from .served import Served, UnknownModelError

STUDIO = Path(str(files("unmask.serve"))) / "studio"
_PAGE_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
"""The studio loads nothing from other servers, and no other page may embed it in a frame."""
_REFUSALS: dict[int | str, dict[str, Any]] = {
    400: {"description": "Invalid request: one line with what is wrong, what was sent, what is allowed and what to do"},
    401: {"description": "Wrong or missing API key"},
    404: {"description": "No such model"},
    413: {"description": "The body is too large"},
    429: {"description": "Too many requests are waiting; Retry-After says when to try again"},
    503: {"description": "The server is shutting down"},
    "4XX": {"description": "Any other client error, in one line"},
}
"""The last entry keeps FastAPI from listing its own 422, which is never sent."""


def application(
    models: dict[str, Model], limits: Limits | None = None, *, key: str | None = None, hosts: list[str] | None = None
) -> FastAPI:
    """Create the application that serves these models. hosts: the allowed host names; None allows any."""
    limits, key = limits or Limits(), checked(key)
    metrics = Metrics()
    served = {name: Served(name, Engine(model, limits, metrics.call_observer(name))) for name, model in models.items()}
    metrics.watch(served)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await asyncio.gather(*(asyncio.to_thread(one.engine.close) for one in served.values()))

    app = FastAPI(
        title="unmask", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None, responses=_REFUSALS
    )
    app.include_router(completions.router(served))
    app.include_router(studio_api.router(served))
    _add_pages(app, metrics, served)
    _add_errors(app)
    app.add_middleware(Guard, key=key, hosts=hosts, largest=limits.body, metrics=metrics)
    app.state.engines = [one.engine for one in served.values()]
    return app


def _add_pages(app: FastAPI, metrics: Metrics, served: dict[str, Served]) -> None:
    @app.get("/healthz", tags=["operation"])
    def health() -> dict[str, Any]:
        """Health check."""
        return {"status": "ok", "version": __version__, "models": list(served)}

    @app.get("/metrics", tags=["operation"], response_class=PlainTextResponse)
    def figures() -> PlainTextResponse:
        """Metrics for Prometheus."""
        return PlainTextResponse(metrics.text(), media_type="text/plain; version=0.0.4")

    @app.get("/", include_in_schema=False)
    def studio() -> FileResponse:
        return FileResponse(STUDIO / "index.html", headers=_PAGE_HEADERS)

    @app.get("/docs", include_in_schema=False)
    def reference() -> FileResponse:
        """Our own page: FastAPI's loads its scripts from other servers."""
        return FileResponse(STUDIO / "reference.html", headers=_PAGE_HEADERS)

    app.mount("/studio", _StudioFiles(directory=STUDIO), name="studio")


class _StudioFiles(StaticFiles):
    """Static files, sent with the headers of the page."""

    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        response = super().file_response(*args, **kwargs)
        response.headers.update(_PAGE_HEADERS)
        return response


def _add_errors(app: FastAPI) -> None:
    """Report every error of a request as one line, in the format of OpenAI's API."""

    async def wrong(_: Request, mistake: Exception) -> JSONResponse:
        headers = {"Retry-After": str(mistake.seconds)} if isinstance(mistake, BusyError) else None
        status, document = errors.response(mistake)
        return JSONResponse(document, status, headers)

    for kind in (ValueError, UnknownModelError, BusyError, ServerStoppedError):
        app.add_exception_handler(kind, wrong)

    @app.exception_handler(RequestValidationError)
    async def malformed(_: Request, mistake: RequestValidationError) -> JSONResponse:
        return JSONResponse(errors.error(errors.malformed(mistake.errors())), 400)

    @app.exception_handler(HTTPException)
    async def other(request: Request, mistake: HTTPException) -> JSONResponse:
        status, said = mistake.status_code, str(mistake.detail)
        if status == 400 and mistake.__cause__ is not None:
            said = errors.unreadable(mistake.__cause__)
        elif status in (404, 405):
            said = errors.missed(status, request.method, request.url.path)
        return JSONResponse(errors.error(said), status, mistake.headers)
