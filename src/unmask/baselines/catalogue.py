"""What there is, and how it differs from MD4."""

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
    """A method beside MD4."""

    config: Any
    """The class of its configuration."""
    differs: str
    reference: str
    bound: str
    """Whether what it is trained on bounds the likelihood."""
    cost: str
    """Network passes per training step, and how much of a pass is charged."""


BASELINES: dict[str, Baseline] = {
    "ar": Baseline(
        ARConfig, "left to right, nothing hidden", "Radford et al., 2019", "exact", "1 pass, every token charged"
    ),
    "ao-arm": Baseline(
        AOARMConfig, "a random order instead of a time", "Hoogeboom et al., 2022", "bound; exact per order", "1 pass"
    ),
    "sedd": Baseline(
        SEDDConfig, "scores that need not sum up rightly", "Lou et al., 2024", "bound, above MD4's", "1 pass"
    ),
    "campbell": Baseline(
        CampbellConfig, "one random jump instead of all", "Campbell et al., 2022", "bound", "1 pass, one token charged"
    ),
    "maskgit": Baseline(MaskGITConfig, "all hidden tokens weigh the same", "Chang et al., 2022", "no bound", "1 pass"),
    "d3pm": Baseline(
        D3PMConfig, "T steps, and some plain cross-entropy", "Austin et al., 2021", "bound if λ = 0", "1 pass"
    ),
    "sundae": Baseline(
        SUNDAEConfig, "mends its own completions too", "Savinov et al., 2022", "bound, and a term more", "2 passes"
    ),
    "block": Baseline(
        BlockConfig,
        "blocks from left to right",
        "Arriola et al., 2025",
        "bound; exact for blocks of 1",
        "1 pass, twice as long",
    ),
    "multinomial": Baseline(
        MultinomialConfig, "wrong tokens instead of masks", "Austin et al., Hoogeboom et al., 2021", "bound", "1 pass"
    ),
}
"""By the name that `--method` takes."""
