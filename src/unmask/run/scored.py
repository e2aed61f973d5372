"""What each token of a text costs a model, in bits."""

from dataclasses import dataclass

import torch

from ..evaluation import surprise
from ..mistakes import require
from ..networks import Halves
from ..sampling import Predictor
from .model import Model

_BITS = 1.4426950408889634
"""Of a nat."""


@dataclass(frozen=True)
class Scored:
    """The tokens of a text with their shares of its bound."""

    pieces: list[str]
    bits: list[float]
    errors: list[float]
    """Standard errors."""

    @property
    def total(self) -> float:
        """Bits of the text: its NELBO."""
        return sum(self.bits)

    @property
    def error(self) -> float:
        """Of the total."""
        return float(sum(e * e for e in self.errors) ** 0.5)

    def document(self) -> dict[str, object]:
        """As JSON."""
        rows = zip(self.pieces, self.bits, self.errors, strict=True)
        each = [{"text": piece, "bits": bits, "error": error} for piece, bits, error in rows]
        return {"tokens": each, "bits": self.total, "error": self.error, "bits_per_token": self.total / len(each)}


def scored(
    model: Model, text: str, *, draws: int = 16, repeats: int = 4, seed: int = 0, halves: Halves | None = None
) -> Scored:
    """Score a text of the model's length at most."""
    tokens = torch.from_numpy(model.vocabulary.encode(text).astype("int64"))
    longest = model.facts.shape[0]
    require(
        len(model.facts.shape) == 1 and 1 <= len(tokens) <= longest,
        "the text does not fit the model",
        got=f"{len(tokens)} tokens",
        allowed=f"1..{longest}",
        do="score a part of it",
    )
    predict = Predictor(model.network, model.process.mask_id, cache=False, halves=halves)
    given = tokens[None].to(model.device)
    found, error = surprise(predict, given, model.estimator(), draws=draws, repeats=repeats, seed=seed)
    values, errors = ((x[0] * _BITS).tolist() for x in (found, error))
    return Scored([model.vocabulary.decode([token]) for token in tokens.tolist()], values, errors)
