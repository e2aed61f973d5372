"""The end of a text given its beginning: what it costs, and whether greedy decoding finds it.

−log p(end | beginning) ≤ NELBO of the end, with the beginning always visible.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..core import Estimator, Process, estimate_nelbo
from ..data.vocabulary import Vocabulary
from ..networks import Network
from ..sampling import Predictor
from ..sampling.frame import number, together
from .chain import most_confident
from .loss import nelbo_in_chunks


@dataclass(frozen=True)
class Row:
    """Tokens, the last of which are hidden and scored."""

    tokens: Tensor
    """[N]."""
    begin: int
    """Where the scored part begins."""
    number: int = 0
    """Rows with the same number share their random numbers."""


def ids(text: str, vocabulary: Vocabulary) -> Tensor:
    """The tokens of a text [N]."""
    return torch.from_numpy(vocabulary.encode(text).astype("int64"))


def windows(context: Tensor, end: Tensor, length: int) -> list[Row]:
    """Rows of at most `length` tokens in which each token of the end is scored once.

    The context is cut at its beginning. An end that is longer than a row fills whole rows without context; the rest of
    it follows as much of the preceding text as fits.
    """
    tokens, first = torch.cat([context, end]), len(context)
    stops = [*range(first + length, len(tokens), length), len(tokens)] if len(end) else []
    rows = []
    for i, stop in enumerate(stops):
        start = max(0, stop - length)
        rows.append(Row(tokens[start:stop], first - start, i))
        first = stop
    return rows


Show = Callable[[list[list[int]]], Iterable[list[int]]]
"""Iterates over batches, and may show progress."""


def by_length(rows: Sequence[Row], most: int, values: Callable[[list[Row]], Tensor], show: Show = iter) -> list[float]:
    """A value for each row, from a function of at most `most` rows of one length, so that no row is padded."""
    found: dict[int, float] = {}
    for index in show(together([row.tokens for row in rows], most)):
        found |= dict(zip(index, values([rows[i] for i in index]).tolist(), strict=True))
    return [found[i] for i in range(len(rows))]


def cost(
    network: Network,
    rows: Sequence[Row],
    estimator: Estimator,
    *,
    draws: int = 32,
    repeats: int = 2,
    seed: int = 0,
) -> Tensor:
    """The NELBO of the hidden part of each row in nats [B]; all rows have the same length."""
    x_0, hidden = _stacked(rows, next(network.parameters()).device)
    numbers = torch.tensor([row.number for row in rows], device=x_0.device)
    how: dict[str, Any] = {"draws": draws, "repeats": repeats, "seed": seed, "nelbo_fn": nelbo_in_chunks}
    return estimate_nelbo(network, x_0, estimator, index=numbers, valid=hidden, **how).mean


@torch.no_grad()
def found_greedily(predict: Predictor, process: Process, rows: Sequence[Row], device: torch.device) -> Tensor:
    """Whether greedy decoding reproduces the hidden part exactly, for rows of one length, bool [B].

    By confidence: one token per network call, the most likely one, at the position where its probability is highest
    (the first in case of ties). A row ends at its first wrong token. Networks that see the time get the one at which
    that share of the hidden part is masked on average; with a schedule for each token (GenMD4), that of the
    linear schedule.
    """
    x_0, masked = _stacked(rows, device)
    start, right = number(masked).clamp(min=1), torch.ones(len(rows), dtype=torch.bool, device=device)
    while bool(masked.any()):
        share, open_rows = number(masked).double() / start, masked.any(1)
        t = process.schedule.time_of(share)
        where, logits = most_confident(predict(process.hide(x_0, masked), t, masked), masked)
        right[open_rows] = logits.argmax(-1) == x_0[where]
        masked = masked & ~where & right[:, None]
    return right


def _stacked(rows: Sequence[Row], device: torch.device) -> tuple[Tensor, Tensor]:
    """Tokens [B, N], and which of them are hidden."""
    x_0 = torch.stack([row.tokens for row in rows]).to(device)
    begins = torch.tensor([row.begin for row in rows], device=device)
    return x_0, torch.arange(x_0.shape[1], device=device) >= begins[:, None]
