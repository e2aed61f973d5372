"""Load test: a minute of completions from 64 clients, compared with a server that takes one request at a time.

    python -m benchmarks.serving_load MODEL [--clients 64] [--seconds 60] [--name NAME]

Prompts and completions have various lengths. Any status other than 200 and 429 is an error.
"""

import argparse
import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from .record import Record

WORDS = ("the old house stood at the end of a long road and nobody had lived there for many years").split()  # noqa: SIM905


@contextmanager
def serving(model: str, *flags: str) -> Iterator[tuple[str, int]]:
    """Start a server; yields its address and process id."""
    command = [sys.executable, "-m", "unmask", "serve", model, "--port", "0", "--json", *flags]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None  # noqa: S101
    try:
        yield json.loads(process.stdout.readline())["address"], process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)


def resident(pid: int) -> float:
    """Resident memory of a process in MiB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


async def client(
    http: httpx.AsyncClient, name: str, number: int, end: float, found: list[tuple[int, float, int]]
) -> None:
    """Send requests until the end; records (status, seconds, tokens) of each answer."""
    drawn = random.Random(number)  # noqa: S311
    while time.perf_counter() < end:
        first = drawn.randrange(len(WORDS) - 8)
        prompt = " ".join(WORDS[first : first + drawn.randint(2, 8)])
        body = {"model": name, "prompt": prompt, "max_tokens": drawn.choice((16, 24, 32)), "steps": 16}
        start = time.perf_counter()
        answer = await http.post("/v1/completions", json=body)
        seconds = time.perf_counter() - start
        tokens = answer.json()["usage"]["completion_tokens"] if answer.status_code == 200 else 0
        found.append((answer.status_code, seconds, tokens))
        if answer.status_code == 429:
            await asyncio.sleep(min(1.0, float(answer.headers["Retry-After"])))


async def load(address: str, pid: int, clients: int, seconds: float) -> dict[str, Any]:
    """Measure a server under load."""
    limits = httpx.Limits(max_connections=clients)
    async with httpx.AsyncClient(base_url=address, timeout=300, limits=limits) as http:
        name = (await http.get("/v1/models")).json()["data"][0]["id"]
        for _ in range(2):
            await http.post("/v1/completions", json={"model": name, "prompt": WORDS[0], "steps": 4})
        found: list[tuple[int, float, int]] = []
        memory: list[float] = []
        start = time.perf_counter()
        tasks = [asyncio.create_task(client(http, name, i, start + seconds, found)) for i in range(clients)]
        while time.perf_counter() < start + seconds:
            memory.append(round(resident(pid), 1))
            await asyncio.sleep(seconds / 12)
        await asyncio.gather(*tasks)
        passed = time.perf_counter() - start
    good = sorted(s for status, s, _ in found if status == 200)
    return {
        "clients": clients,
        "seconds": round(passed, 1),
        "statuses": {str(status): count for status, count in Counter(status for status, _, _ in found).items()},
        "requests_per_s": round(len(good) / passed, 2),
        "tokens_per_s": round(sum(tokens for _, _, tokens in found) / passed, 1),
        "latency_s": {"median": round(good[len(good) // 2], 2), "p95": round(good[int(0.95 * len(good))], 2)},
        "resident_mib": memory,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--name", default="serving_load")
    options = parser.parse_args()
    record = Record(options.name, seed=0)
    with serving(options.model, "--jobs", "1") as (address, pid):
        single = asyncio.run(load(address, pid, options.clients, options.seconds / 2))
    with serving(options.model, "--jobs", str(options.clients)) as (address, pid):
        shared = asyncio.run(load(address, pid, options.clients, options.seconds))
    record.write(
        model=Path(options.model).name,
        one_at_a_time=single,
        together=shared,
        times_as_fast=round(shared["tokens_per_s"] / single["tokens_per_s"], 2),
    )


if __name__ == "__main__":
    main()
