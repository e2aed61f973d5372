"""The likelihood itself, enclosed between two bounds, from random orders and the exact chain rule."""

from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np
import torch

from ..core import Streams
from ..data import Split
from ..data.order import Indices
from ..evaluation import Scores, bits, chain_rule, order_bounds, per_unit
from ..files import read_kept, write_json
from ..mistakes import require
from ..sampling import MASKED, SCORES, Predictor
from .evaluate import Evaluation, Progress, batches, decided_by, rows_wanted, settings_of, split_of
from .folder import EVALS, ModelFolder
from .model import Model, load

_TOGETHER = 16
"""Sequences per batch."""
_FEW = 32
"""Default number of sequences: each takes a network call per token and order."""


def order_interval(
    run: ModelFolder, wanted: Evaluation, orders: int, progress: Progress | None = None
) -> dict[str, Any]:
    """Bits per token: the bound as a mean over orders, a tighter one from all of them together, one from the other
    side, and the exact chain rule from left to right. The error due to the choice of orders is known for the first
    and zero for the last; the two in between have no `monte_carlo`.
    """
    run = run.pinned()
    model = load(run, average=wanted.average)
    require_any_order(model, do="leave --orders out to measure its own bound")
    split = split_of(run, model, wanted)
    places = np.sort(rows_wanted(split, wanted, wanted.sequences or _FEW))
    settings = settings_of(run, wanted, split) | {"orders": orders, "sequences": len(places)}
    name = f"orders-{wanted.split}-{decided_by(settings)}"
    path = run.results / EVALS / f"{name}.json"
    if path.exists():
        found: dict[str, Any] = read_kept(path)
        return found
    rows = list(_bounds(model, split, places, orders, wanted.seed, progress))
    values, tokens = np.concatenate([r for r, _ in rows], axis=1), np.concatenate([t for _, t in rows])
    bound, error, tighter, other, straight = values
    figure = partial(_figure, tokens, split.running)
    document = settings | {
        "name": name,
        "bound": figure(bound, error),
        "tighter_bound": figure(tighter),
        "other_side": figure(other),
        "left_to_right": figure(straight, np.zeros_like(straight)),
    }
    found = write_json(path, document)
    return found


def require_any_order(model: Model, do: str) -> None:
    """Fail unless the model is masked diffusion: no other method predicts any token from any others."""
    family, allowed = model.method.family, MASKED.name
    what = "the model does not support random orders"
    require(family in (MASKED, SCORES), what, got=family.name, allowed=allowed, do=do)


def _bounds(
    model: Model, split: Split, places: Indices, orders: int, seed: int, progress: Progress | None
) -> Iterator[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]:
    """For each batch, nats [5, B]: the bound, its error and the other three; and the number of tokens [B]."""
    done = 0
    for batch in batches(model, split, places, _TOGETHER):
        require(
            batch.valid is None or bool(batch.valid.all()),
            "orders need rows of one length",
            got="rows that differ in length",
            allowed="running text, or images",
            do="use the bound",
        )
        predict = Predictor(model.network, model.process.mask_id, batch.label)
        found = order_bounds(predict, model.process, batch.tokens, orders=orders, seed=seed, index=batch.index)
        own = Streams(seed, batch.index)
        straight = chain_rule(predict, model.process, batch.tokens, own, order="left-to-right")
        done += len(batch.index)
        if progress is not None:
            progress(done, len(places))
        nats = torch.stack([found.elbo, found.elbo_error, found.upper, found.lower, straight]).numpy()
        yield nats, np.full(len(batch.tokens), batch.tokens[0].numel())


def _figure(
    tokens: np.ndarray[Any, Any],
    neighbours: bool,
    nats: np.ndarray[Any, Any],
    error: np.ndarray[Any, Any] | None = None,
) -> dict[str, float]:
    """A result as JSON. error: due to the random orders [B]; None: unknown."""
    known = np.zeros(len(nats)) if error is None else error
    document = asdict(bits(per_unit(Scores(nats, known, tokens, 0, neighbours=neighbours), tokens)))
    if error is None:
        del document["monte_carlo"]
    return document
