"""`unmask serve`: models over HTTP, and the studio."""

import json
import os
from pathlib import Path

from rich.console import Console

from unmask.mistakes import extra, require
from unmask.run import load


def run(models: tuple[str, ...], host: str, port: int, limits: dict[str, int], average: bool, as_json: bool) -> int:
    """Load, listen, say where, and serve until stopped."""
    for module in ("fastapi", "uvicorn", "prometheus_client"):
        extra(module, "serve", "the server")
    from unmask.serve import Limits
    from unmask.serve.server import check_address, serve

    key = os.environ.get("UNMASK_API_KEY") or None
    check_address(host, key)
    for name, value in limits.items():
        require(value >= 1, f"{name} is not positive", got=value, allowed=">= 1", do="raise it")
    loaded = {name_of(path, models): load(path, average=average) for path in models}
    console = Console()

    def ready(address: str) -> None:
        if as_json:
            print(json.dumps({"address": address, "models": list(loaded)}), flush=True)
            return
        console.print(f"studio      {address}", highlight=False)
        console.print(
            f"completions {address}/v1/completions (OpenAI's clients: base_url {address}/v1)", highlight=False
        )
        console.print(f"API         {address}/docs", highlight=False)
        console.print(f"models      {', '.join(loaded)}; Ctrl-C stops", highlight=False)

    serve(loaded, host=host, port=port, key=key, limits=Limits(**limits), ready=ready)
    return 0


def name_of(model: str, others: tuple[str, ...]) -> str:
    """The last part of a path or an id, or all of it where that is not enough."""
    last = [Path(other).name or other for other in others]
    name = Path(model).name or model
    return name if last.count(name) == 1 else model
