"""Jobs: bounded, batched, and cancelled when the client leaves."""

import asyncio
import threading
import time
from contextlib import aclosing
from dataclasses import asdict, fields

import pytest
import torch

from unmask.cli.serving_commands import Serve
from unmask.run import Sampling, load
from unmask.serve.batcher import ServerStoppedError
from unmask.serve.engine import BusyError, Engine, Limits


@pytest.fixture
def model(letters):
    return load(letters, device="cpu")


def drained(engine, x, sampling):
    async def drain():
        async with aclosing(engine.frames(x, sampling)) as frames:
            async for frame in frames:
                last = frame
        return last

    return drain()


def test_jobs_at_the_same_time_give_what_each_gives_alone(model):
    """Twelve jobs of three lengths share network calls and do not change each other."""
    rows = []
    engine = Engine(model, Limits(jobs=13), rows.append)
    jobs = [
        (model.blank(2, 0, length=length), Sampling(seed=seed, steps=8)) for seed in range(4) for length in (8, 7, 3)
    ]
    first, all_here = threading.Event(), threading.Event()

    async def together():
        """A thirteenth member holds them back until all have started: the speed of thread start is not tested."""
        holding = asyncio.create_task(engine.run(lambda _: (first.set(), all_here.wait())))
        while not first.is_set():
            await asyncio.sleep(0.01)
        others = [asyncio.create_task(drained(engine, *job)) for job in jobs]
        while engine._batcher._members < 13:
            await asyncio.sleep(0.01)
        all_here.set()
        await holding
        return await asyncio.gather(*others)

    found = asyncio.run(together())
    engine.close()
    alone = [model.fill(*job) for job in jobs]
    assert all(torch.equal(a.tokens, b.tokens) for a, b in zip(found, alone, strict=True))
    assert sum(frame.calls for frame in found) == sum(rows)
    assert len(rows) < sum(rows) / 4


def test_beyond_the_queue_callers_are_sent_away(model):
    engine = Engine(model, Limits(jobs=1, queue=1))
    hold = threading.Event()

    async def crowd():
        busy = [asyncio.create_task(engine.run(lambda _: hold.wait())) for _ in range(2)]
        await asyncio.sleep(0.05)
        assert (engine.running, engine.waiting) == (1, 1)
        with pytest.raises(BusyError) as told:
            await engine.run(lambda _: None)
        assert told.value.seconds >= 1
        hold.set()
        await asyncio.gather(*busy)
        return await engine.run(lambda _: "served again")

    assert asyncio.run(crowd()) == "served again"
    engine.close()


def test_work_ends_when_nobody_waits_for_it(model):
    """Closing the trajectory ends its network calls within a step."""
    rows = []
    engine = Engine(model, Limits(), rows.append)

    async def leave():
        async with aclosing(engine.frames(model.blank(1, 0, length=400), Sampling(steps=1000))) as frames:
            async for frame in frames:
                if frame.calls >= 3:
                    break
        while engine.pending:
            await asyncio.sleep(0.005)

    asyncio.run(leave())
    made = len(rows)
    time.sleep(0.1)
    assert len(rows) == made < 100
    engine.close()


def test_closing_waits_for_nobody(model, monkeypatch):
    """Closing waits neither for a network call that does not end nor for a job; their clients get an error."""
    began, hold = threading.Event(), threading.Event()
    monkeypatch.setattr(model.network, "features", lambda *_: (began.set(), hold.wait()))
    engine = Engine(model, Limits())

    async def close():
        asked = [
            asyncio.create_task(drained(engine, model.blank(1, 0), Sampling(steps=2))),
            asyncio.create_task(engine.run(lambda _: None)),
        ]
        while not began.is_set():
            await asyncio.sleep(0.01)
        start = time.monotonic()
        await asyncio.to_thread(engine.close)
        assert time.monotonic() - start < 5
        with pytest.raises(ServerStoppedError):
            await asked[0]
        await asyncio.wait(asked)
        with pytest.raises(ServerStoppedError):
            await engine.run(lambda _: "taken on")
        while engine.pending:
            await asyncio.sleep(0.01)

    asyncio.run(asyncio.wait_for(close(), 20))
    hold.set()


def test_mistakes_come_back(model):
    engine = Engine(model, Limits())
    with pytest.raises(ValueError, match="unknown sampler"):
        asyncio.run(drained(engine, model.blank(1, 0), Sampling(sampler="ancestrale")))
    assert engine.pending == 0
    engine.close()


def test_the_flags_begin_with_the_limits_of_the_library():
    """The command's help must not import the server, so both define the defaults."""
    flags = {field.name: field.default for field in fields(Serve)}
    limits = asdict(Limits())
    assert {name: flags[name] for name in flags.keys() & limits.keys()} == {
        name: limits[name] for name in flags.keys() & limits.keys()
    }
    assert flags.keys() & limits.keys() == limits.keys() - {"body"}
