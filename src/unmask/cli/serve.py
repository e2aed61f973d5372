"""`unmask serve`: models over HTTP, and the studio."""

import os
from pathlib import Path

from rich.console import Console

from unmask.mistakes import extra, require
from unmask.run import load

from .machine import print_json


def run(models: tuple[str, ...], host: str, port: int, limits: dict[str, int], average: bool, as_json: bool) -> int:
    """Load the models, listen, print the address, and serve until stopped."""
    for module in ("fastapi", "uvicorn", "prometheus_client"):
        extra(module, "serve", "the server")
    from unmask.serve import Limits
    from unmask.serve.server import listen, serve

    require(bool(models), "no model to serve", got="none", allowed="one or more", do="name one, such as demo")
    key = os.environ.get("UNMASK_API_KEY") or None
    for name, value in limits.items():
        require(value >= 1, f"{name} is not positive", got=value, allowed=">= 1", do="raise it")
    with listen(host, port, key) as listening:  # before anything large is loaded
        loaded = {name_of(model, models): load(model, average=average) for model in models}

        def ready(address: str) -> None:
            say = _as_json if as_json else _as_text
            say(address, list(loaded))

        serve(loaded, listening, key=key, limits=Limits(**limits), ready=ready)
    return 0


def _as_json(address: str, models: list[str]) -> None:
    print_json({"address": address, "models": models})


def _as_text(address: str, models: list[str]) -> None:
    console = Console(highlight=False)
    console.print(f"studio      {address}")
    console.print(f"completions {address}/v1/completions (OpenAI's clients: base_url {address}/v1)", soft_wrap=True)
    console.print(f"API         {address}/docs")
    console.print(f"models      {', '.join(models)}; press Ctrl-C to stop", soft_wrap=True)


def name_of(model: str, others: tuple[str, ...]) -> str:
    """The last part of a path or an id, or all of it where the last part is not unique."""
    last = [Path(other).name or other for other in others]
    name = Path(model).name or model
    return name if last.count(name) == 1 else model
