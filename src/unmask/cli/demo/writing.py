"""The shipped model of English at work: it writes, fills gaps, and scores text."""

import time
from typing import Any

import torch

from unmask.run import Model, Sampling, load
from unmask.run.scored import scored

from ..score import heat
from .stage import Stage

_TOKENS, _STEPS = 96, 64
GAPS = "It was a dark night, and [MASK:8] when the old man [MASK:6] to the door."
TEXT = "The captain stood upon the deck and looked at the banana."


def write(stage: Stage) -> dict[str, Any]:
    """Write a paragraph from nothing but masks."""
    model, start = load("demo"), time.perf_counter()
    x = model.blank(1, stage.seed, length=_TOKENS)
    (row,) = stage.watch(model, model.frames(x, Sampling(steps=_STEPS, seed=stage.seed, temperature=0.7)))
    return {"text": model.vocabulary.decode(row), "seconds": round(time.perf_counter() - start, 2)}


def fill(stage: Stage) -> list[str]:
    """Fill the gaps in three ways, each seeing both sides of every gap; the given text stays."""
    model = load("demo")
    row = model.prompt(GAPS)
    stage.console.print(GAPS.replace("[MASK:8]", "________").replace("[MASK:6]", "______"), style="dim")
    rows = torch.stack([row] * 3)
    found = stage.watch(model, model.frames(rows, Sampling(steps=32, seed=stage.seed, temperature=0.8)), shown=3)
    return [model.vocabulary.decode(row) for row in found]


def score(stage: Stage) -> dict[str, Any]:
    """Show the bits of each token."""
    model: Model = load("demo")
    found = scored(model, TEXT, draws=16, repeats=4, seed=stage.seed)
    stage.console.print(heat(found, stage.live))
    worst = max(range(len(found.bits)), key=found.bits.__getitem__)
    stage.console.print(
        f"{found.total:.1f} ± {found.error:.1f} bits in total; most surprising: "
        f"{found.pieces[worst].strip()!r}, {found.bits[worst]:.1f} bits"
    )
    return found.document()
