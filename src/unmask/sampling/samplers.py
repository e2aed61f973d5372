"""All samplers by name, with the distribution of their samples and their requirements."""

import inspect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ..core import Polynomial, Process, Schedule, TokenPolynomial
from ..mistakes import fail, nearest, require
from . import adaptive, ancestral, hitting, order, remask, scores, uniform
from .family import BLOCKS, CAUSAL, MASKED, SCORES, UNIFORM, Family
from .frame import Frame
from .predict import Predictor
from .speculative import speculative

SamplerFunction = Callable[..., Iterator[Frame]]
"""(predict, process, x, grid, streams, **options): fills the masked positions of x [B, ...] and yields a frame per
step; row b draws from stream b."""


@dataclass(frozen=True)
class Schedules:
    """The schedules that a sampler is defined for."""

    words: str
    hold: Callable[[Schedule], bool]


ANY = Schedules("any", lambda _: True)
SCALAR = Schedules("one schedule for all tokens", lambda schedule: not schedule.per_token)
POLYNOMIAL = Schedules(
    "polynomial, or an exponent for each token", lambda schedule: isinstance(schedule, (Polynomial, TokenPolynomial))
)


@dataclass(frozen=True)
class Sampler:
    """A sampler and its properties."""

    run: SamplerFunction
    law: str
    """How the samples relate to the model's distribution, one of `LAWS`; `law_of` is specific to a family of models."""
    summary: str
    schedules: Schedules = SCALAR
    time_free: bool = False
    """Whether it requires a network that does not see the time."""
    families: tuple[Family, ...] = (MASKED, SCORES)
    """The families of models that can use it."""
    grid: bool = True
    """Whether it steps along the grid; otherwise it makes as many calls as it needs."""
    settles: bool = True
    """Whether a revealed token never changes again."""

    @property
    def options(self) -> dict[str, Any]:
        """The sampler's options with their defaults."""
        found = inspect.signature(self.run).parameters.values()
        return {p.name: p.default for p in found if p.kind is inspect.Parameter.KEYWORD_ONLY}

    def law_of(self, family: Family) -> str:
        """`law` for a family of models; an autoregressive model has only one order, so nothing can contradict it."""
        return EXACT if family is CAUSAL else self.law

    def fits(self, schedule: Schedule) -> bool:
        """Whether the sampler is defined for this schedule."""
        return self.schedules.hold(schedule)


EXACT, STEPS, NEARS, BIASED = "exact", "exact for T steps", "nears exact as T grows", "biased"
PERFECT = "right for a perfect denoiser"
LAWS = {
    EXACT: "the model's distribution",
    STEPS: "the distribution of the model with T steps, which approaches the model's own as T grows",
    NEARS: "an approximation of the model's distribution that is exact in the limit of many steps",
    PERFECT: "the model's distribution, with many steps, only if its predictions agree in every order, as true ones do",
    BIASED: "a different distribution: faster, or better-looking, than the model's own",
}
"""The laws and their meanings."""
SAMPLERS: dict[str, Sampler] = {
    "ancestral": Sampler(ancestral.ancestral, STEPS, "draws positions first, then tokens; the default", ANY),
    "analytic": Sampler(scores.analytic, STEPS, "SEDD's; the same as ancestral if probabilities sum to one", ANY),
    "two-step": Sampler(ancestral.two_step, STEPS, "as published: draws a token everywhere, then which to reveal"),
    "joint": Sampler(ancestral.joint, BIASED, "as published: one float32 draw, in which rare tokens never appear"),
    "euler": Sampler(scores.euler, NEARS, "Euler steps of the reverse chain"),
    "tau-leaping": Sampler(ancestral.tau_leaping, NEARS, "rates held constant over a step"),
    "first-hitting": Sampler(hitting.first_hitting, EXACT, "one position per call, at its own time", grid=False),
    "thinning": Sampler(hitting.thinning, EXACT, "GenMD4 in continuous time", POLYNOMIAL, grid=False),
    "race": Sampler(
        hitting.race,
        EXACT,
        "GenMD4 if the network does not see the time, one token per call",
        POLYNOMIAL,
        time_free=True,
        grid=False,
    ),
    "speculative": Sampler(
        speculative, EXACT, "first-hitting with drafts checked in one batch", time_free=True, grid=False
    ),
    "confidence": Sampler(order.confidence, BIASED, "MaskGIT: the most probable tokens first"),
    "margin": Sampler(order.margin, BIASED, "first where one token is far ahead of the next"),
    "entropy": Sampler(order.entropy, BIASED, "first where the network is least uncertain"),
    "left-to-right": Sampler(
        order.left_to_right,
        PERFECT,
        "one token at a time, from left to right; exact for autoregressive models",
        grid=False,
        families=(MASKED, SCORES, CAUSAL),
    ),
    "halton": Sampler(order.halton, PERFECT, "positions far apart, in a fixed order"),
    "entropy-bounded": Sampler(
        adaptive.entropy_bounded, BIASED, "as many positions at once as their entropy allows", grid=False
    ),
    "threshold": Sampler(adaptive.threshold, BIASED, "all positions that are nearly certain, at least one", grid=False),
    "block-wise": Sampler(
        ancestral.block_wise,
        STEPS,
        "for block diffusion: one block after another, each by ancestral steps",
        families=(BLOCKS,),
    ),
    "uniform": Sampler(
        uniform.uniform,
        STEPS,
        "for uniform noise: redraws every token in each step",
        families=(UNIFORM,),
        settles=False,
    ),
    "remask-cap": Sampler(
        remask.remask_cap, PERFECT, "ReMDM: remasks a share η to correct early mistakes", settles=False
    ),
    "remask-rescale": Sampler(remask.remask_rescale, PERFECT, "ReMDM: remasks η of the largest share", settles=False),
    "remask-confidence": Sampler(remask.remask_confidence, BIASED, "ReMDM: remasks doubtful tokens", settles=False),
    "remask-loop": Sampler(
        remask.remask_loop, BIASED, "ReMDM: unmasks most, corrects for a while, then finishes", settles=False
    ),
    "forward-backward": Sampler(remask.forward_backward, PERFECT, "a step back for every step forward", settles=False),
    "dfm-corrector": Sampler(remask.dfm_corrector, PERFECT, "the corrector of discrete flow matching", settles=False),
}


def find_sampler(name: str) -> Sampler:
    """Find a sampler by name; the error suggests the nearest one."""
    if name not in SAMPLERS:
        fail(
            "unknown sampler",
            got=name,
            allowed=", ".join(SAMPLERS),
            do=nearest(name, SAMPLERS, "see unmask samplers"),
        )
    return SAMPLERS[name]


def options_of(sampler: str, given: Iterable[str]) -> dict[str, Any]:
    """Parse `name=value` words into the sampler's options, each with the type of its default."""
    known, found = find_sampler(sampler).options, {}
    for word in given:
        name, separator, value = word.partition("=")
        require(
            bool(separator) and name in known,
            f"not an option of {sampler}",
            got=word,
            allowed=", ".join(f"{key}={default}" for key, default in known.items()) or "none: it has no options",
            do="write NAME=VALUE",
        )
        kind = type(known[name])
        try:
            found[name] = _SWITCH[value.lower()] if kind is bool else kind(value)
        except (KeyError, ValueError):
            allowed = ", ".join(_SWITCH) if kind is bool else kind.__name__
            what = f"{name} is not on or off" if kind is bool else f"the value of {name} is not a number"
            fail(what, got=value, allowed=allowed, do=f"for example {name}={known[name]}")
    return found


_SWITCH = {"true": True, "false": False, "yes": True, "no": False, "on": True, "off": False, "1": True, "0": False}
"""The values of a boolean option."""
KINDS = (bool, int, float, str)
"""The possible types of an option; its default determines the type."""


def fitting(schedule: Schedule, family: Family, sees_time: bool) -> dict[str, Sampler]:
    """The samplers that a model can use, by name."""
    return {
        name: sampler
        for name, sampler in SAMPLERS.items()
        if family in sampler.families and sampler.fits(schedule) and not (sampler.time_free and sees_time)
    }


def check(name: str, process: Process, predict: Predictor, options: dict[str, Any]) -> Sampler:
    """Find a sampler and check that it is defined for this process, network and options."""
    sampler = find_sampler(name)
    family = predict.family
    require(
        family in sampler.families,
        f"{name} is not defined for this model",
        got=family.name,
        allowed=", ".join(known for known, other in SAMPLERS.items() if family in other.families),
        do=f"use {family.sampler}",
    )
    unknown = [option for option in options if option not in sampler.options]
    allowed = ", ".join(sampler.options) or "none"
    require(not unknown, f"{name} has no such option", got=", ".join(unknown), allowed=allowed, do="leave it out")
    per_token = process.schedule.per_token
    require(
        sampler.fits(process.schedule),
        f"{name} is not defined for this schedule",
        got="a schedule for each token (GenMD4)" if per_token else repr(process.schedule),
        allowed=sampler.schedules.words,
        do="use ancestral, thinning or race" if per_token else "use first-hitting",
    )
    require(
        not (sampler.time_free and predict.sees_time),
        f"{name} needs a network that does not see the time",
        got="one that does",
        allowed="a network without time conditioning",
        do="use first-hitting, or ancestral",
    )
    return sampler
