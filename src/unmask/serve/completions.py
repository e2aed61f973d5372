"""`/v1/completions` and `/v1/models`, compatible with OpenAI's clients. A suffix turns completion into infilling."""

import asyncio
import json
import secrets
import time
from bisect import bisect_left
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import Response
from numpy.typing import NDArray
from torch import Tensor

from ..data.vocabulary import BROKEN
from ..mistakes import require
from ..run import Sampling
from ..run.prompt import Prompt, around, ends_in_space
from ..sampling import find_sampler
from .bodies import CompletionBody
from .errors import Document
from .gone import streamed, unless_gone
from .served import Served, find_served, seed_of

_DONE = "data: [DONE]\n\n"


@dataclass
class Growing:
    """The text of one choice, from left to right, as far as it is final."""

    served: Served
    gap: NDArray[np.bool_]
    stops: list[str]
    drop_space: bool
    text: str = ""
    sent: int = 0
    finished: str | None = None
    tokens: int = 0

    def take(self, row: NDArray[np.int64], last: bool) -> str:
        """The new text since the last call: up to the first gap, without a partial stop string or character."""
        found = row[: len(self.gap)][self.gap]  # a row of fixed length goes on after the text
        hidden = np.flatnonzero(found == self.served.model.process.mask_id)
        known = found[: hidden[0]] if len(hidden) else found
        eos = self.served.model.vocabulary.eos_id
        ends = np.flatnonzero(known == (-1 if eos is None else eos))
        if len(ends):
            known, self.finished = known[: ends[0]], "stop"
        self.tokens = len(known)
        text = self.served.model.vocabulary.decode(known)
        dropped = self.drop_space and text.startswith(" ")
        self.text = text[1:] if dropped else text
        places = (self.text.find(stop, self.sent) for stop in self.stops)  # no part of a stop was sent
        cut = min((place for place in places if place >= 0), default=None)
        if cut is not None:
            self.text, self.finished = self.text[:cut], "stop"
            self.tokens = self._spent(known, cut + dropped)
        if last and self.finished is None:
            self.finished = "length"
        return self._fresh(whole=self.finished is not None)

    def _spent(self, known: NDArray[np.int64], length: int) -> int:
        """The number of tokens that `length` characters take: those returned, whether streamed or not."""
        ends = accumulate(map(len, self.served.model.vocabulary.pieces(known)), initial=0)
        return bisect_left(list(ends), length)

    def _fresh(self, whole: bool) -> str:
        end = len(self.text)
        if not whole:
            end = len(self.text.rstrip(BROKEN))
            end -= max((_begun(stop, self.text[max(0, end - len(stop)) : end]) for stop in self.stops), default=0)
        fresh, self.sent = self.text[self.sent : max(end, self.sent)], max(end, self.sent)
        return fresh


def _begun(stop: str, tail: str) -> int:
    """The length of the longest proper prefix of a stop that the text ends in."""
    return next((n for n in range(len(stop) - 1, 0, -1) if tail.endswith(stop[:n])), 0)


@dataclass(frozen=True)
class CompletionRequest:
    """One prompt of a request, with its gap."""

    prompt: Prompt
    echo: str
    """Text returned before the completion."""
    drop_space: bool
    """Whether the prompt ends with the space that the completion begins with."""


def prompts_of(body: CompletionBody, served: Served) -> list[CompletionRequest]:
    """The prompts of a request; their number is checked before any of them is tokenized."""
    served.check_text()
    given: Any = body.prompt if isinstance(body.prompt, list) and body.prompt else [body.prompt]
    if isinstance(given[0], int):
        given = [given]
    served.check(samples=body.n * len(given), tokens=body.max_tokens, steps=body.steps)
    found = [_request(one, body, served) for one in given]
    for asked in found:
        served.check(tokens=len(asked.prompt.tokens))
    return found


def _request(given: str | list[int], body: CompletionBody, served: Served) -> CompletionRequest:
    vocabulary = served.model.vocabulary
    if isinstance(given, str):
        text, drop_space = given, ends_in_space(given, vocabulary)
    else:
        good = all(0 <= token < vocabulary.size for token in given)
        require(good, "no such token", got="one out of range", allowed=f"0..{vocabulary.size - 1}", do="send text")
        text, drop_space = vocabulary.decode(given) if body.echo else "", False
    tokens = around(given, body.max_tokens, body.suffix or "", vocabulary)
    return CompletionRequest(tokens, text if body.echo else "", drop_space)


def router(models: dict[str, Served]) -> APIRouter:
    """Create the routes of the OpenAI API."""
    routes = APIRouter(prefix="/v1", tags=["OpenAI"])

    @routes.get("/models")
    def list_models() -> dict[str, Any]:
        """List the served models."""
        return {"object": "list", "data": [_model(name) for name in models]}

    @routes.get("/models/{name:path}")
    def one_model(name: str) -> dict[str, Any]:
        """Describe one model."""
        return _model(find_served(models, name).name)

    @routes.post("/completions", response_model=None)
    async def completions(body: CompletionBody, request: Request) -> Response:
        """Continue a prompt, or fill the gap between a prompt and a suffix."""
        served = find_served(models, body.model)
        prompts = await run_in_threadpool(prompts_of, body, served)  # tokenizing a long text takes a while
        answer = _Answer(body, served, prompts)
        if body.stream:
            return await streamed(request, answer.chunks(), _failed)
        return await unless_gone(request, answer.whole())

    return routes


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "unmask"}


def _data(document: dict[str, Any]) -> str:
    return f"data: {json.dumps(document, ensure_ascii=False)}\n\n"


def _failed(document: Document) -> str:
    return _data(document) + _DONE


class _Answer:
    """The choices of one request; the choices of one prompt are sampled together."""

    def __init__(self, body: CompletionBody, served: Served, prompts: list[CompletionRequest]):
        self.body, self.served, self.prompts = body, served, prompts
        self.seed = seed_of(body)
        self.head = {
            "id": f"cmpl-{secrets.token_hex(12)}",
            "object": "text_completion",
            "created": int(time.time()),
            "model": served.name,
            "seed": self.seed,
        }
        self.choices = [
            [Growing(served, asked.prompt.gap, body.stops(), asked.drop_space) for _ in range(body.n)]
            for asked in prompts
        ]

    async def whole(self) -> dict[str, Any]:
        """The complete response as one JSON document."""
        tasks = [asyncio.ensure_future(self._finish(number)) for number in range(len(self.prompts))]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
        return self.head | {"choices": [self._choice(*place) for place in self._places()], "usage": self._usage()}

    async def _finish(self, number: int) -> None:
        async with aclosing(self._grown(number)) as grown:
            async for _ in grown:
                pass

    async def chunks(self) -> AsyncGenerator[str]:
        """Server-sent events: text from left to right as it becomes final."""
        for number in range(len(self.prompts)):
            async with aclosing(self._grown(number)) as grown:
                async for parts in grown:
                    if parts:
                        yield self._event(parts)
        if self.body.stream_options is not None and self.body.stream_options.include_usage:
            yield self._event([], usage=self._usage())
        yield _DONE

    async def _grown(self, number: int) -> AsyncGenerator[list[dict[str, Any]]]:
        """New parts of a prompt's choices, step by step: first the echo, once a step has succeeded, and last the
        reasons why the choices end.
        """
        echo, prompt = self._echo(number), self.prompts[number].prompt
        sampling: Sampling = self.body.sampling(self.seed + number, int(prompt.gap.sum()))
        x: Tensor = self.served.rows(prompt.tokens, prompt.gap, self.body.n)
        settles = find_sampler(self.served.model.sampler(sampling)).settles
        rows: NDArray[np.int64] = x.numpy()
        async with aclosing(self.served.engine.frames(x, sampling)) as frames:
            async for frame in frames:
                rows = frame.tokens.cpu().numpy()
                if settles and self.body.stream and frame.step > 0:
                    yield echo
                    yield self._parts(number, rows, last=False)
                    echo = []
        yield echo
        yield self._parts(number, rows, last=True)

    def _parts(self, number: int, rows: NDArray[np.int64], last: bool) -> list[dict[str, Any]]:
        found = []
        for i, (growing, row) in enumerate(zip(self.choices[number], rows, strict=True)):
            ended = growing.finished is not None
            fresh = "" if ended else growing.take(row, last)
            if fresh or (growing.finished is not None and not ended):
                found.append(self._part(number * self.body.n + i, fresh, growing.finished))
        return found

    def _echo(self, number: int) -> list[dict[str, Any]]:
        text = self.prompts[number].echo
        return [self._part(number * self.body.n + i, text, None) for i in range(self.body.n)] if text else []

    @staticmethod
    def _part(index: int, text: str, finished: str | None) -> dict[str, Any]:
        return {"index": index, "text": text, "logprobs": None, "finish_reason": finished}

    def _event(self, choices: list[dict[str, Any]], **more: Any) -> str:
        return _data(self.head | {"choices": choices} | more)

    def _places(self) -> Iterable[tuple[int, int]]:
        return ((number, i) for number in range(len(self.prompts)) for i in range(self.body.n))

    def _choice(self, number: int, i: int) -> dict[str, Any]:
        growing = self.choices[number][i]
        text = self.prompts[number].echo + growing.text
        return self._part(number * self.body.n + i, text, growing.finished)

    def _usage(self) -> dict[str, int]:
        given = sum(int((~asked.prompt.gap).sum()) for asked in self.prompts)
        made = sum(growing.tokens for choices in self.choices for growing in choices)
        return {"prompt_tokens": given, "completion_tokens": made, "total_tokens": given + made}
