"""All samplers by name, with what each does to the law, and what it needs."""

import difflib
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ..core import Process
from ..mistakes import fail, require
from . import adaptive, ancestral, hitting, order, remask
from .frame import Frame
from .predict import Predictor
from .speculative import speculative

ANY, SCALAR, POLYNOMIAL = "any", "scalar", "polynomial"


Run = Callable[..., Iterator[Frame]]
"""(predict, process, x, grid, streams, **options): fills the masked positions of x [B, ...], a frame for each step;
row b draws from stream b."""


@dataclass(frozen=True)
class Sampler:
    """A way to sample."""

    run: Run
    law: str
    """What it does to the law of the model."""
    summary: str
    schedules: str = SCALAR
    """Which it is defined for: any, scalar, or polynomial ones."""
    time_free: bool = False
    """Whether it needs a network that does not see the time."""
    grid: bool = True
    """Whether it walks along the grid; if not, it makes as many calls as it needs."""

    @property
    def options(self) -> dict[str, Any]:
        """Its own options, with their defaults."""
        found = inspect.signature(self.run).parameters.values()
        return {p.name: p.default for p in found if p.kind is inspect.Parameter.KEYWORD_ONLY}


_STEPS = "the law of the model with T steps, which tends to the model's as T grows"
_EXACT = "the law of the model, without steps"
_BIASED = "another law: faster, or better-looking, than the model is"
SAMPLERS: dict[str, Sampler] = {
    "ancestral": Sampler(ancestral.ancestral, _STEPS, "positions first, then tokens; the default", ANY),
    "analytic": Sampler(ancestral.ancestral, _STEPS, "SEDD's; with probabilities that sum to one it is ancestral", ANY),
    "two-step": Sampler(ancestral.two_step, _STEPS, "the paper's second form, as published: a token everywhere"),
    "joint": Sampler(ancestral.joint, "truncated: rare tokens never appear", "one float32 draw, as published"),
    "euler": Sampler(ancestral.euler, "tends to the model's law as T grows, slower", "Euler steps of the chain"),
    "tau-leaping": Sampler(ancestral.tau_leaping, "tends to the model's law as T grows, slower", "constant rates"),
    "first-hitting": Sampler(
        hitting.first_hitting, _EXACT + " (one token per call)", "one position per call, at its time", grid=False
    ),
    "thinning": Sampler(hitting.thinning, _EXACT, "GenMD4 in continuous time", POLYNOMIAL, grid=False),
    "speculative": Sampler(
        speculative, _EXACT, "first-hitting by drafts, checked in one batch", time_free=True, grid=False
    ),
    "confidence": Sampler(order.confidence, _BIASED, "MaskGIT: the most probable tokens first"),
    "margin": Sampler(order.margin, _BIASED, "where one token is far ahead of the next"),
    "entropy": Sampler(order.entropy, _BIASED, "where the network is least uncertain"),
    "halton": Sampler(order.halton, "exact with one token per step, factorised within a step", "positions far apart"),
    "entropy-bounded": Sampler(
        adaptive.entropy_bounded, _BIASED, "as many at once as their entropy allows", grid=False
    ),
    "threshold": Sampler(adaptive.threshold, _BIASED, "all that are nearly certain", grid=False),
    "remask-cap": Sampler(remask.remask_cap, "the model's masked share; mends early mistakes", "hides η again"),
    "remask-rescale": Sampler(remask.remask_rescale, "the model's masked share; mends early mistakes", "η of the most"),
    "remask-confidence": Sampler(remask.remask_confidence, _BIASED, "hides doubtful tokens again"),
    "remask-loop": Sampler(remask.remask_loop, "mends at a fixed masked share", "unmask, stay and mend, finish"),
    "forward-backward": Sampler(remask.forward_backward, "the model's masked share; mends", "a step back for each"),
    "dfm-corrector": Sampler(remask.dfm_corrector, "the model's masked share; mends", "discrete flow matching's"),
}  # fmt: skip


def find(name: str) -> Sampler:
    """By name, or one line with the nearest."""
    if name not in SAMPLERS:
        near = difflib.get_close_matches(name, SAMPLERS, 1)
        do = f"did you mean {near[0]}?" if near else "see unmask samplers"
        fail("unknown sampler", got=name, allowed=", ".join(SAMPLERS), do=do)
    return SAMPLERS[name]


def check(name: str, process: Process, predict: Predictor, options: dict[str, Any]) -> Sampler:
    """The sampler, if it is defined for this process and network, with these options."""
    sampler = find(name)
    unknown = [option for option in options if option not in sampler.options]
    allowed = ", ".join(sampler.options) or "none"
    require(not unknown, f"{name} has no such option", got=", ".join(unknown), allowed=allowed, do="leave it out")
    per_token, exponents = process.schedule.per_token, hasattr(process.schedule, "w")
    fits = {ANY: True, SCALAR: not per_token, POLYNOMIAL: exponents}[sampler.schedules]
    require(
        fits,
        f"{name} is not defined for this schedule",
        got="a schedule for each token (GenMD4)" if per_token else repr(process.schedule),
        allowed={ANY: "", SCALAR: "one schedule for all tokens", POLYNOMIAL: "1 − t^w"}[sampler.schedules],
        do="use ancestral or thinning" if per_token else "use first-hitting",
    )
    require(
        not (sampler.time_free and predict.sees_time),
        f"{name} needs a network that does not see the time",
        got="one that does",
        allowed="conditioning without time",
        do="use first-hitting, or ancestral",
    )
    return sampler
