"""The command that serves models."""

from dataclasses import dataclass
from typing import Annotated

import tyro


@dataclass(frozen=True)
class Serve:
    """Serve models over HTTP: web studio, OpenAI's completions API.

    The server also offers step-by-step trajectories, scores, and metrics for Prometheus. Only this machine can reach
    it, unless --host names another address, which requires a key in UNMASK_API_KEY. Examples:
      unmask serve demo digits
      UNMASK_API_KEY=secret unmask serve runs/shakespeare runs/digits --host 0.0.0.0 --port 80
    """

    models: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="MODEL", help_behavior_hint="")]
    """Runs, exported or shipped models, or hub:OWNER/NAME; each is served under the last part of its name."""
    host: str = "127.0.0.1"
    """Address to listen on."""
    port: int = 8000
    """Port to listen on; 0 for any free port."""
    jobs: int = 32
    """Maximum number of requests processed at the same time, in shared network calls."""
    queue: int = 256
    """Maximum number of waiting requests; beyond it, clients are told to retry later."""
    rows: int = 64
    """Maximum number of samples in one network call."""
    samples: int = 16
    """Maximum number of samples per request."""
    tokens: int = 2048
    """Maximum number of tokens per sample."""
    steps: int = 1024
    """Maximum number of sampling steps."""
    raw: bool = False
    """Use the raw weights instead of their moving average."""
    json: bool = False
    """Print the address as JSON and nothing else."""

    def run(self) -> int:
        from . import serve

        limits = {name: getattr(self, name) for name in ("jobs", "queue", "rows", "samples", "tokens", "steps")}
        return serve.run(self.models, self.host, self.port, limits, not self.raw, self.json)
