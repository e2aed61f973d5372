"""The command that serves models."""

from dataclasses import dataclass
from typing import Annotated

import tyro


@dataclass(frozen=True)
class Serve:
    """Serve models over HTTP: a studio, OpenAI's completions.

    Besides, trajectories step by step, scores, and figures for Prometheus. Only this machine can reach it, unless
    --host names another address, which needs a key in UNMASK_API_KEY. Examples:
      unmask serve demo digits
      UNMASK_API_KEY=secret unmask serve runs/shakespeare runs/digits --host 0.0.0.0 --port 80
    """

    models: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="MODEL")]
    """Runs, exported or shipped models, hub:OWNER/NAME; each is known by the last part of its name."""
    host: str = "127.0.0.1"
    """The address to listen on."""
    port: int = 8000
    """The port to listen on; 0 for any that is free."""
    jobs: int = 32
    """Requests that are worked on at the same time, in shared network calls."""
    queue: int = 256
    """Requests that wait; beyond it, clients are told to come back later."""
    rows: int = 64
    """Samples in one network call."""
    samples: int = 16
    """Most samples of one request."""
    tokens: int = 2048
    """Most tokens of one sample."""
    steps: int = 1024
    """Most sampling steps."""
    raw: bool = False
    """The plain weights instead of their average."""
    json: bool = False
    """Print the address as JSON and nothing else."""

    def run(self) -> int:
        from . import serve

        limits = {name: getattr(self, name) for name in ("jobs", "queue", "rows", "samples", "tokens", "steps")}
        return serve.run(self.models, self.host, self.port, limits, not self.raw, self.json)
