"""Families of models: what a model's predictions mean determines how it can be sampled."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Family:
    """A family of models."""

    name: str
    sampler: str
    """The default sampler."""


MASKED = Family("a masked diffusion model", "ancestral")
SCORES = Family("a masked diffusion model with scores", "analytic")
"""SEDD: the sum of the predictions is meaningful, not only their ratios."""
CAUSAL = Family("an autoregressive model", "left-to-right")
BLOCKS = Family("a block diffusion model", "block-wise")
UNIFORM = Family("a diffusion model with uniform noise", "uniform")
"""The network sees tokens, some of them wrong, instead of masks."""
