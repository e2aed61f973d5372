"""What a model's predictions mean, which decides how it can be sampled."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Family:
    """A kind of model."""

    name: str
    sampler: str
    """The one that is used unless another is named."""


MASKED = Family("a masked diffusion model", "ancestral")
SCORES = Family("a masked diffusion model with scores", "analytic")
"""SEDD: the sum of its predictions means something, not only their ratios."""
CAUSAL = Family("an autoregressive model", "left-to-right")
BLOCKS = Family("a block diffusion model", "block-wise")
UNIFORM = Family("a diffusion model with uniform noise", "uniform")
"""Its network is shown tokens, some of them wrong, and no masks."""
