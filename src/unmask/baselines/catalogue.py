"""The available baselines, and how each differs from MD4."""

from dataclasses import dataclass
from typing import Any

from .ardm import AOARMConfig
from .autoregressive import ARConfig
from .blocks import BlockConfig
from .campbell import CampbellConfig
from .d3pm import D3PMConfig
from .maskgit import MaskGITConfig
from .score import SEDDConfig
from .sundae import SUNDAEConfig
from .uniform import MultinomialConfig


@dataclass(frozen=True)
class Baseline:
    """A method other than MD4."""

    config: Any
    """Its configuration class."""
    differs: str
    reference: str
    bound: str
    """Whether the training objective bounds the likelihood."""
    cost: str
    """Network passes per training step, and which tokens of a pass have a loss."""


BASELINES: dict[str, Baseline] = {
    "ar": Baseline(
        ARConfig, "left to right, nothing masked", "Radford et al., 2019", "exact", "1 pass, loss on every token"
    ),
    "ao-arm": Baseline(
        AOARMConfig, "a random order instead of a time", "Hoogeboom et al., 2022", "bound; exact per order", "1 pass"
    ),
    "sedd": Baseline(SEDDConfig, "scores with unconstrained sum", "Lou et al., 2024", "bound, above MD4's", "1 pass"),
    "campbell": Baseline(
        CampbellConfig, "one random jump instead of all", "Campbell et al., 2022", "bound", "1 pass, loss on one token"
    ),
    "maskgit": Baseline(
        MaskGITConfig, "equal weight for all masked tokens", "Chang et al., 2022", "not a bound", "1 pass"
    ),
    "d3pm": Baseline(
        D3PMConfig, "T steps, plus some plain cross-entropy", "Austin et al., 2021", "bound if λ = 0", "1 pass"
    ),
    "sundae": Baseline(
        SUNDAEConfig,
        "also corrects its own completions",
        "Savinov et al., 2022",
        "bound plus an extra term",
        "2 passes",
    ),
    "block": Baseline(
        BlockConfig,
        "blocks from left to right",
        "Arriola et al., 2025",
        "bound; exact for blocks of 1",
        "1 pass, twice as long",
    ),
    "multinomial": Baseline(
        MultinomialConfig, "random tokens instead of masks", "Austin et al., Hoogeboom et al., 2021", "bound", "1 pass"
    ),
}
"""The baselines by the name that `--method` accepts."""
