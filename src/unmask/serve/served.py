"""The models of a server by name, and the checks that all requests share."""

import secrets
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..data.vocabulary import Characters, Integers, Subwords
from ..mistakes import require
from ..run import Model
from ..run.previews import is_picture
from ..sampling import LAWS, fitting
from .bodies import How
from .engine import Engine, Limits


class UnknownModelError(Exception):
    """No model has this name."""


@dataclass(frozen=True)
class Served:
    """A served model with its engine."""

    name: str
    engine: Engine

    @property
    def model(self) -> Model:
        return self.engine.model

    @property
    def limits(self) -> Limits:
        return self.engine.limits

    @property
    def is_text(self) -> bool:
        """Whether its tokens are pieces of text."""
        return not isinstance(self.model.vocabulary, Integers)

    def describe(self) -> dict[str, Any]:
        """Everything that the studio needs to know about the model."""
        model = self.model
        picture = is_picture(model.vocabulary, model.facts.shape)
        family = model.method.family
        samplers = fitting(model.process.schedule, family, model.network.sees_time)
        return {
            "id": self.name,
            "kind": "text" if self.is_text else "picture" if picture else "numbers",
            "shape": list(model.facts.shape),
            "fixed_shape": model.fixed_shape,
            "vocabulary": repr(model.vocabulary),
            "vocabulary_size": model.vocabulary.size,
            "alphabet": model.vocabulary.symbols if isinstance(model.vocabulary, Characters) else None,
            "subwords": isinstance(model.vocabulary, Subwords),
            "end": model.vocabulary.eos_id,
            "parameters": sum(p.numel() for p in model.method.parameters()),
            "classes": list(model.facts.label_names),
            "sampler": family.sampler,
            "samplers": [
                {
                    "name": name,
                    "summary": found.summary,
                    "law": found.law_of(family),
                    "meaning": LAWS[found.law_of(family)],
                    "grid": found.grid,
                }
                for name, found in samplers.items()
            ],
            "limits": {"samples": self.limits.samples, "tokens": self.limits.tokens, "steps": self.limits.steps},
        }

    def check_text(self) -> None:
        """Check that this is a text model."""
        require(self.is_text, "this is not a text model", got=self.name, allowed="a text model", do="see /api/models")

    def piece(self, token: int) -> str:
        """The text of one token."""
        return self.model.vocabulary.decode([token]) if self.is_text else str(token)

    def pieces(self, tokens: list[int | None]) -> list[str | None]:
        """What each token adds to the text of the row; None in gaps, which split characters of several tokens."""
        found: list[str | None] = []
        for gap, run in groupby(tokens, key=lambda token: token is None):
            if gap:
                found += [None for _ in run]
            else:
                found += self.model.vocabulary.pieces([token for token in run if token is not None])
        return found

    def check(self, *, samples: int = 1, tokens: int = 1, steps: int | None = None) -> None:
        """Check that a request is not too large."""
        for value, most, what in (
            (samples, self.limits.samples, "samples"),
            (tokens, self.limits.tokens, "tokens"),
            (steps or 1, self.limits.steps, "steps"),
        ):
            require(value <= most, f"too many {what}", got=value, allowed=f"at most {most}", do="ask for fewer")

    def known(self, largest: int) -> None:
        """Check that the token id exists."""
        size = self.model.vocabulary.size
        require(largest < size, "no such token", got=largest, allowed=f"0..{size - 1}", do="tokenize the text again")

    def rows(self, tokens: NDArray[np.int64], gap: NDArray[np.bool_], count: int) -> Tensor:
        """Rows [count, *shape], masked in the gap; models of running text accept any length."""
        model = self.model
        shape = model.facts.shape
        size = int(np.prod(shape))
        require(bool(gap.any()), "there is nothing to fill", got="no gap", allowed="at least one", do="mask a token")
        good = len(tokens) == size if len(shape) > 1 else (len(tokens) <= size or not model.fixed_shape)
        require(
            good, "the row does not fit the model", got=len(tokens), allowed=f"{size} tokens", do="change its length"
        )
        self.known(int(np.where(gap, 0, tokens).max()))
        row = torch.from_numpy(np.where(gap, model.process.mask_id, tokens))
        if model.fixed_shape and len(shape) == 1:
            row = model.whole_row(row)
        row = row.view(shape) if len(shape) > 1 else row
        return row.expand(count, *row.shape).clone()


def find_served(models: dict[str, Served], name: str) -> Served:
    """Find a model by name."""
    if name not in models:
        raise UnknownModelError(f"no such model: got {name!r}, allowed: {', '.join(models)}; see /v1/models")
    return models[name]


def seed_of(how: How) -> int:
    """The seed of the request, or a new one."""
    return secrets.randbits(32) if how.seed is None else how.seed
