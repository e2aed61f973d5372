"""Opening the socket and running the server until it is asked to stop."""

import asyncio
import ipaddress
import os
import socket
from collections.abc import Callable

import uvicorn

from ..mistakes import fail, require
from ..run import Model
from .app import application
from .batcher import ignore
from .engine import Engine, Limits
from .guard import checked

_FINISH = 25
"""Seconds that running requests have to finish at shutdown; after that they get an error."""
_LEAVE = 3
"""Additional seconds for clients to read that error before they are disconnected."""


class _Server(uvicorn.Server):
    """Sends an error to unfinished requests at shutdown; uvicorn alone would cancel them without a message."""

    def __init__(self, config: uvicorn.Config, engines: list[Engine]):
        super().__init__(config)
        self._engines = engines

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        cut = asyncio.get_running_loop().call_later(_FINISH, self._cut_off)
        await super().shutdown(sockets)
        cut.cancel()

    def _cut_off(self) -> None:
        for engine in self._engines:
            engine.stop()


def serve(
    models: dict[str, Model],
    listening: socket.socket,
    *,
    key: str | None,
    limits: Limits,
    ready: Callable[[str], object] = ignore,
) -> None:
    """Serve until SIGINT or SIGTERM, then finish running requests. `ready` is called with the address."""
    host, port = listening.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    hosts = ["localhost", "127.0.0.1", "[::1]", shown] if is_loopback(host) else None
    app = application(models, limits, key=key, hosts=hosts)
    config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=_FINISH + _LEAVE, lifespan="on")
    ready(f"http://{shown}:{port}")
    _Server(config, app.state.engines).run(sockets=[listening])


def is_loopback(host: str) -> bool:
    """Whether the host can be reached only from this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def listen(host: str, port: int, key: str | None) -> socket.socket:
    """A listening socket; an address that is not a loopback address requires a key. Port 0 takes any free port."""
    require(
        bool(checked(key)) or is_loopback(host),
        "a public address requires an API key",
        got=f"--host {host} without a key",
        allowed="127.0.0.1 without a key",
        do="set UNMASK_API_KEY, or listen on 127.0.0.1",
    )
    require(0 <= port < 65536, "the port is out of range", got=port, allowed="0..65535", do="omit --port to use 8000")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        found = socket.socket(family, kind, protocol)
        try:
            if os.name == "posix":
                found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            found.bind(address)
            found.listen(512)
        except OSError:
            found.close()
            raise
    except OSError as error:
        fail(
            f"cannot listen on {host}:{port}",
            got=error.strerror or str(error),
            allowed="a free port of an address of this machine",
            do="choose another with --port, or use 0 for any free port",
        )
    return found
