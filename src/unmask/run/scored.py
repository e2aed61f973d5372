"""The cost of each token of a text under a model, in bits."""

from dataclasses import dataclass

import torch

from ..evaluation import surprise
from ..mistakes import require
from ..networks import Halves
from ..sampling import Predictor
from .model import Model

_BITS = 1.4426950408889634
"""Bits per nat."""


@dataclass(frozen=True)
class Scored:
    """The tokens of a text with their shares of its bound."""

    pieces: list[str]
    bits: list[float]
    errors: list[float]
    """Standard errors."""
    error: float
    """Standard error of the total."""

    @property
    def total(self) -> float:
        """Bits of the text: its NELBO."""
        return sum(self.bits)

    @property
    def spans(self) -> list[tuple[str, float]]:
        """Pieces of the text with their bits; tokens that together form one character are merged."""
        found, carried = [], 0.0
        for piece, bits in zip(self.pieces, self.bits, strict=True):
            carried += bits
            if piece:
                found.append((piece, carried))
                carried = 0.0
        return [*found, ("", carried)] if carried else found

    def document(self) -> dict[str, object]:
        """The scores as JSON."""
        rows = zip(self.pieces, self.bits, self.errors, strict=True)
        each = [{"text": piece, "bits": bits, "error": error} for piece, bits, error in rows]
        return {"tokens": each, "bits": self.total, "error": self.error, "bits_per_token": self.total / len(each)}


def scored(
    model: Model,
    text: str,
    *,
    draws: int = 16,
    repeats: int = 4,
    seed: int = 0,
    label: int | str | None = None,
    halves: Halves | None = None,
) -> Scored:
    """Score a text that is no longer than the model's length; `label`: given its class."""
    tokens = torch.from_numpy(model.vocabulary.encode(text).astype("int64"))
    require(len(tokens) > 0, "there is nothing to score", got="no text", allowed="some text", do="write something")
    x_0, valid = model.whole_rows(tokens[None])
    predict = Predictor(model.network, model.process.mask_id, model.labels(label, 1), cache=False, halves=halves)
    found = surprise(predict, x_0, model.estimator(), valid=valid, draws=draws, repeats=repeats, seed=seed)
    values, errors = ((x[0, : len(tokens)] * _BITS).tolist() for x in (found.nats, found.error))
    return Scored(model.vocabulary.pieces(tokens.tolist()), values, errors, found.total_error.item() * _BITS)
