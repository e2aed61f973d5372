"""The studio's API: tokenization, step-by-step trajectories, alternatives for a token, and scores."""

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial
from typing import Any

import numpy as np
import torch
from fastapi import APIRouter, Request
from fastapi.responses import Response
from numpy.typing import NDArray
from torch import Tensor

from ..mistakes import require
from ..networks import Halves
from ..run.prompt import has_gap, parse
from ..run.scored import scored
from ..sampling import Frame, Predictor
from .bodies import AlternativesBody, ScoreBody, TextBody, TokensBody, TrajectoryBody
from .gone import streamed, unless_gone
from .served import Served, find_served, seed_of


def router(models: dict[str, Served]) -> APIRouter:
    """Create the routes of the studio's API."""
    routes = APIRouter(prefix="/api", tags=["studio"])

    @routes.get("/models")
    def list_models() -> list[dict[str, Any]]:
        """List the served models with everything that the studio needs to know about them."""
        return [served.describe() for served in models.values()]

    @routes.post("/tokens")
    def tokens(body: TokensBody) -> list[dict[str, Any]]:
        """Tokenize a text."""
        served = _of_text(models, body.model)
        ids = _read(served, body) if body.text else []
        return [{"id": token, "text": text} for token, text in zip(ids, served.pieces(ids), strict=True)]

    @routes.post("/text")
    def text(body: TextBody) -> dict[str, Any]:
        """Convert tokens to text; `pieces` holds the text of each token, null in gaps."""
        served = _of_text(models, body.model)
        served.known(max((token or 0 for token in body.tokens), default=0))
        pieces = served.pieces(body.tokens)
        return {"text": "".join(piece or "" for piece in pieces), "pieces": pieces}

    @routes.post("/trajectory", response_model=None)
    async def trajectory(body: TrajectoryBody, request: Request) -> Response:
        """Fill the gaps and stream one server-sent event per step."""
        served = find_served(models, body.model)
        return await streamed(request, _events(body, served), partial(_event, "error"))

    @routes.post("/alternatives", response_model=None)
    async def alternatives(body: AlternativesBody, request: Request) -> Response:
        """The most probable tokens at a position, given all other tokens."""
        served = find_served(models, body.model)
        good = body.place < len(body.tokens)
        require(good, "no such position", got=body.place, allowed=f"0..{len(body.tokens) - 1}", do="choose one of them")
        served.check(tokens=len(body.tokens))
        served.known(body.token or 0)
        hidden = [None if place == body.place else token for place, token in enumerate(body.tokens)]
        x = served.rows(*_given(hidden), 1)
        work = served.engine.run(lambda halves: _alternatives(served, x, body, halves))
        return await unless_gone(request, work)

    @routes.post("/score", response_model=None)
    async def score(body: ScoreBody, request: Request) -> Response:
        """The bits of each token, with standard errors: its share of the bound."""
        served = _of_text(models, body.model)
        how = {"draws": body.draws, "repeats": body.repeats, "seed": body.seed}

        async def work() -> dict[str, object]:
            found = await served.engine.run(lambda halves: scored(served.model, body.text, halves=halves, **how))
            return found.document()

        return await unless_gone(request, work())

    return routes


def _of_text(models: dict[str, Served], name: str) -> Served:
    served = find_served(models, name)
    served.check_text()
    return served


def _read(served: Served, body: TokensBody) -> list[int | None]:
    """Tokenize a text; gaps are None."""
    vocabulary = served.model.vocabulary
    if not (body.gaps and has_gap(body.text)):
        return [int(token) for token in vocabulary.encode(body.text)]
    found = parse(body.text, vocabulary, served.limits.tokens)
    rows = zip(found.tokens.tolist(), found.gap.tolist(), strict=True)
    return [None if gap else token for token, gap in rows]


def _given(tokens: list[int | None]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    gap = np.array([token is None for token in tokens])
    largest = np.iinfo(np.int64).max
    return np.array([min(token or 0, largest) for token in tokens], dtype=np.int64), gap


def _event(name: str, document: dict[str, Any]) -> str:
    return f"event: {name}\ndata: {json.dumps(document, ensure_ascii=False)}\n\n"


async def _events(body: TrajectoryBody, served: Served) -> AsyncGenerator[str]:
    """The events start, step (one per step) and end; or error if sampling fails."""
    served.check(samples=body.n, tokens=len(body.tokens), steps=body.steps)
    tokens, gap = _given(body.tokens)
    x, seed = served.rows(tokens, gap, body.n), seed_of(body)
    sampling = body.sampling(seed, int(gap.sum()), body.label)
    async with aclosing(served.engine.frames(x, sampling)) as frames:
        before = x.flatten(1)[:, : len(tokens)]
        async for frame in frames:
            now = frame.tokens.cpu().flatten(1)[:, : len(tokens)]
            if frame.step == 0:
                yield _event("start", {"seed": seed, "samples": body.n, "masked": int(gap.sum())})
            elif bool((now != before).any()):
                yield _event("step", _step(served, frame, before, now))
            before = now
        calls = frame.calls / body.n
        yield _event("end", {"tokens": before.tolist(), "calls": calls, "seed": seed})


def _step(served: Served, frame: Frame, before: Tensor, now: Tensor) -> dict[str, Any]:
    """The changes of a step; the id is null where a token is masked again."""
    mask_id = served.model.process.mask_id
    changes = []
    for sample, place in (now != before).nonzero().tolist():
        token = int(now[sample, place])
        hidden = token == mask_id
        changes.append(
            {
                "sample": sample,
                "place": place,
                "id": None if hidden else token,
                "text": None if hidden else served.piece(token),
            }
        )
    return {"step": frame.step, "t": round(float(frame.t.mean()), 6), "calls": frame.calls, "changes": changes}


def _alternatives(served: Served, x: Tensor, body: AlternativesBody, halves: Halves) -> list[dict[str, Any]]:
    model, place = served.model, body.place
    if model.window is not None:  # a longer text is cut to a window around the position
        start = min(max(place - model.window // 2, 0), max(x.shape[1] - model.window, 0))
        x, place = x[:, start : start + model.window], place - start
    where = torch.zeros(x.shape, dtype=torch.bool)
    where.view(1, -1)[0, place] = True
    x, where = x.to(model.device), where.to(model.device)
    share = (x == model.process.mask_id).flatten(1).double().mean(1)
    label, mask_id, family = model.labels(body.label, 1), model.process.mask_id, model.method.family
    predict = Predictor(model.network, mask_id, label, halves=halves, family=family)
    with torch.no_grad():
        probability = predict(x, model.process.schedule.time_of(share), where)[0].softmax(-1, dtype=torch.float64)
    best = probability.topk(min(body.count, len(probability))).indices.tolist()
    shown = best if body.token is None or body.token in best else [*best, body.token]
    return [{"id": i, "text": served.piece(i), "probability": probability[i].item()} for i in shown]
