"""Schedules that also depend on the place: does an order within words, or from left to right, help?

    python -m benchmarks.placed words:3 NAME data/text8 runs/NAME …
    python -m benchmarks.placed left:24 NAME data/text8 runs/NAME …

As `benchmarks.text8_speedrun`, with w_v multiplied by a factor c_n: 3^-j for the j-th letter of a word (j ≤ 4), or
e^-n/24 for position n. The reverse process only knows the words it sees, ĉ_n; a position then costs

    c_n w_x [−log μ_x + log c_n/ĉ_n − 1] + ĉ_n Σ_v w_v μ_v,

the bound for rates that are not those of the forward process.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from unmask.core import Draw, Rows, Streams, either
from unmask.core.estimator import hide_least
from unmask.core.numeric import softmax_dtype
from unmask.core.objective import RaceDraw, cross_entropy
from unmask.core.race import TokenExactK

from . import text8_speedrun

Factor = Callable[[Tensor, Tensor], Tensor]
"""(tokens, where spaces are known to be) → c, like the tokens."""


def words(base: float) -> Factor:
    """Letters of a word one after another."""

    def factor(x: Tensor, spaces: Tensor) -> Tensor:
        place = torch.arange(x.shape[1], device=x.device).expand_as(x)
        begun = torch.where(spaces, place, -1).cummax(1).values
        return torch.where(spaces, 1.0, base ** -(place - begun - 1).clamp(0, 4).double())

    return factor


def left(width: float) -> Factor:
    """From left to right."""

    def factor(x: Tensor, spaces: Tensor) -> Tensor:
        del spaces
        return (-torch.arange(x.shape[1], device=x.device).double() / width).exp().expand(x.shape)

    return factor


@dataclass(frozen=True)
class PlacedDraw(RaceDraw):
    """With the factors, and those that are seen."""

    c: Tensor | None = None
    seen: Tensor | None = None


def estimator(factor: Factor) -> type[TokenExactK]:
    """The race with these factors."""

    @dataclass(frozen=True)
    class Placed(TokenExactK):
        def draw_given_k(
            self, x_0: Tensor, k: Tensor, weight: Tensor, streams: Streams, valid: Tensor | None = None
        ) -> PlacedDraw:
            c = factor(x_0, x_0 == 0)
            w = self._w[x_0.long()] * c
            rings = -streams.uniform(*x_0.shape[1:]).log() / w
            mask, last = hide_least(-rings, k, valid)
            zero, total = torch.zeros_like(weight), (w * mask).flatten(1).sum(1)
            shared = torch.where(k > 0, weight * k / torch.where(k > 0, total, 1.0), zero)
            seen = factor(x_0, (x_0 == 0) & ~mask)
            t = last.clamp(max=0).exp()
            return PlacedDraw(t, mask, shared, zero, zero, zero, rings=rings, c=c, seen=seen)

        def losses(self, logits: Tensor, rows: Rows, draw: Draw) -> Tensor:
            c, seen = (factors.flatten()[rows.index] for factors in (draw.c, draw.seen))  # type: ignore[attr-defined]
            mu = logits.softmax(-1, dtype=softmax_dtype(logits))
            spent = (self._w[None].to(mu.dtype) * mu).sum(-1) * seen.to(mu.dtype)
            found: Tensor = c * self._w[rows.target] * (cross_entropy(logits, rows) + (c / seen).log() - 1) + spent
            return found

    return Placed


def main() -> None:
    """Put the factors in, and train."""
    kind, value = sys.argv.pop(1).split(":")
    made: dict[str, Any] = {"words": words, "left": left}
    either.TokenExactK = estimator(made[kind](float(value)))  # type: ignore[attr-defined]
    text8_speedrun.main()


if __name__ == "__main__":
    main()
