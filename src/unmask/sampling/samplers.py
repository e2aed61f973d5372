"""All samplers by name, with what each does to the law, and what it needs."""

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
"""(predict, process, x, grid, streams, **options): fills the masked positions of x [B, ...], a frame for each step;
row b draws from stream b."""


@dataclass(frozen=True)
class Schedules:
    """Those that a sampler is defined for."""

    words: str
    hold: Callable[[Schedule], bool]


ANY = Schedules("any", lambda _: True)
SCALAR = Schedules("one schedule for all tokens", lambda schedule: not schedule.per_token)
POLYNOMIAL = Schedules("1 − t^w", lambda schedule: isinstance(schedule, (Polynomial, TokenPolynomial)))


@dataclass(frozen=True)
class Sampler:
    """A way to sample."""

    run: SamplerFunction
    law: str
    """What it does to the law of the model, one of `LAWS`; `law_of` a family of models may say more."""
    summary: str
    schedules: Schedules = SCALAR
    time_free: bool = False
    """Whether it needs a network that does not see the time."""
    families: tuple[Family, ...] = (MASKED, SCORES)
    """The models that can use it."""
    grid: bool = True
    """Whether it walks along the grid; if not, it makes as many calls as it needs."""
    settles: bool = True
    """Whether a token that is revealed stays."""

    @property
    def options(self) -> dict[str, Any]:
        """Its own options, with their defaults."""
        found = inspect.signature(self.run).parameters.values()
        return {p.name: p.default for p in found if p.kind is inspect.Parameter.KEYWORD_ONLY}

    def law_of(self, family: Family) -> str:
        """What it does to the law of such a model; one that reads in order has no other order to disagree with."""
        return EXACT if family is CAUSAL else self.law

    def fits(self, schedule: Schedule) -> bool:
        """Whether it is defined for this schedule."""
        return self.schedules.hold(schedule)


EXACT, STEPS, NEARS, BIASED = "exact", "exact for T steps", "nears exact as T grows", "biased"
PERFECT = "right for a perfect denoiser"
LAWS = {
    EXACT: "the law of the model",
    STEPS: "the law of the model with T steps, which nears the model's own as T grows",
    NEARS: "an approximation of it that is right in the limit of many steps",
    PERFECT: "the law of the model, with many steps, only if its predictions agree in every order, as true ones do",
    BIASED: "another law: faster, or better-looking, than the model is",
}
"""What the words mean."""
SAMPLERS: dict[str, Sampler] = {
    "ancestral": Sampler(ancestral.ancestral, STEPS, "positions first, then tokens; the default", ANY),
    "analytic": Sampler(scores.analytic, STEPS, "SEDD's: with probabilities that sum to one it is ancestral", ANY),
    "two-step": Sampler(ancestral.two_step, STEPS, "as published: a token everywhere, then which to reveal"),
    "joint": Sampler(ancestral.joint, BIASED, "as published: one float32 draw, in which rare tokens never appear"),
    "euler": Sampler(scores.euler, NEARS, "Euler steps of the reverse chain"),
    "tau-leaping": Sampler(ancestral.tau_leaping, NEARS, "rates held constant over a step"),
    "first-hitting": Sampler(hitting.first_hitting, EXACT, "one position per call, at its own time", grid=False),
    "thinning": Sampler(hitting.thinning, EXACT, "GenMD4 in continuous time", POLYNOMIAL, grid=False),
    "race": Sampler(
        hitting.race,
        EXACT,
        "GenMD4 without time in the network, a token per call",
        POLYNOMIAL,
        time_free=True,
        grid=False,
    ),
    "speculative": Sampler(
        speculative, EXACT, "first-hitting by drafts, checked in one batch", time_free=True, grid=False
    ),
    "confidence": Sampler(order.confidence, BIASED, "MaskGIT: the most probable tokens first"),
    "margin": Sampler(order.margin, BIASED, "where one token is far ahead of the next"),
    "entropy": Sampler(order.entropy, BIASED, "where the network is least uncertain"),
    "left-to-right": Sampler(
        order.left_to_right,
        PERFECT,
        "one token at a time, the first masked; exact for models that read in order",
        grid=False,
        families=(MASKED, SCORES, CAUSAL),
    ),
    "halton": Sampler(order.halton, PERFECT, "positions far apart, in a fixed order"),
    "entropy-bounded": Sampler(adaptive.entropy_bounded, BIASED, "as many at once as their entropy allows", grid=False),
    "threshold": Sampler(adaptive.threshold, BIASED, "all that are nearly certain, at least one", grid=False),
    "block-wise": Sampler(
        ancestral.block_wise,
        STEPS,
        "for block diffusion: block after block, each by ancestral steps",
        families=(BLOCKS,),
    ),
    "uniform": Sampler(
        uniform.uniform,
        STEPS,
        "for uniform noise: every token drawn anew in each step",
        families=(UNIFORM,),
        settles=False,
    ),
    "remask-cap": Sampler(
        remask.remask_cap, PERFECT, "ReMDM: hides a share η again, to mend early mistakes", settles=False
    ),
    "remask-rescale": Sampler(remask.remask_rescale, PERFECT, "ReMDM: η of the largest share", settles=False),
    "remask-confidence": Sampler(remask.remask_confidence, BIASED, "ReMDM: hides doubtful tokens again", settles=False),
    "remask-loop": Sampler(remask.remask_loop, BIASED, "ReMDM: unmask most, mend for a while, finish", settles=False),
    "forward-backward": Sampler(remask.forward_backward, PERFECT, "a step back for every step forward", settles=False),
    "dfm-corrector": Sampler(remask.dfm_corrector, PERFECT, "discrete flow matching's corrector", settles=False),
}


def find_sampler(name: str) -> Sampler:
    """By name, or one line with the nearest."""
    if name not in SAMPLERS:
        fail(
            "unknown sampler",
            got=name,
            allowed=", ".join(SAMPLERS),
            do=nearest(name, SAMPLERS, "see unmask samplers"),
        )
    return SAMPLERS[name]


def options_of(sampler: str, given: Iterable[str]) -> dict[str, Any]:
    """`name=value` words as the sampler's options, each of the kind of its default."""
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
            what = f"{name} is on or off" if kind is bool else f"the value of {name} is not a number"
            fail(what, got=value, allowed=allowed, do=f"for example {name}={known[name]}")
    return found


_SWITCH = {"true": True, "false": False, "yes": True, "no": False, "on": True, "off": False, "1": True, "0": False}
"""How a switch is set."""
KINDS = (bool, int, float, str)
"""What an option may be: its default says which."""


def fitting(schedule: Schedule, family: Family, sees_time: bool) -> dict[str, Sampler]:
    """The samplers that a model can use, by name."""
    return {
        name: sampler
        for name, sampler in SAMPLERS.items()
        if family in sampler.families and sampler.fits(schedule) and not (sampler.time_free and sees_time)
    }


def check(name: str, process: Process, predict: Predictor, options: dict[str, Any]) -> Sampler:
    """The sampler, if it is defined for this process and network, with these options."""
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
        allowed="conditioning without time",
        do="use first-hitting, or ancestral",
    )
    return sampler
