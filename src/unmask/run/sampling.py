"""How to sample."""

import math
from dataclasses import dataclass, field
from typing import Any, Literal

from ..core import cosine_grid, uniform_grid
from ..mistakes import require

MOST = 1 << 24
"""The largest number of steps, or of samples per batch."""
GRIDS = {"uniform": uniform_grid, "cosine": cosine_grid}


@dataclass(frozen=True)
class Sampling:
    """How to sample."""

    sampler: str | None = None
    """See `unmask samplers`; None: the default of the model's family, usually ancestral."""
    steps: int = 256
    """Steps of the time grid, for samplers that use one."""
    grid: Literal["uniform", "cosine"] | None = None
    """None: cosine for linear and polynomial schedules (also per token), as the paper advises; uniform otherwise."""
    seed: int = 0
    """Sample i depends on the seed and i only."""
    temperature: float = 1.0
    """Below 1 favours likely tokens; 0 takes only the most likely. Changes the distribution."""
    top_k: int | None = None
    """Sample only from the k most likely tokens."""
    top_p: float | None = None
    """Sample only from the most likely tokens that make up this probability."""
    label: int | str | None = None
    """The class to sample from, by number or name."""
    guidance: float | None = None
    """Above 1: follow the class more closely or, without a class, the prompt."""
    rising: bool = False
    """Weaken the guidance while most positions are masked."""
    batch_size: int = 64
    """Samples per batch."""
    options: dict[str, Any] = field(default_factory=dict)
    """Options of the sampler."""

    def __post_init__(self) -> None:
        for name in ("steps", "batch_size"):
            value = getattr(self, name)
            good = isinstance(value, int) and 1 <= value <= MOST
            require(good, f"{name} is out of range", got=value, allowed=f"an integer, 1..{MOST:,}", do="change it")
        g = self.guidance
        good = g is None or math.isfinite(g)
        require(good, "guidance is not finite", got=g, allowed="a finite number", do="use 2, for example")
        known = self.grid is None or self.grid in GRIDS
        used = self.guidance is not None or not self.rising
        require(used, "rising needs guidance", got="rising alone", allowed="both or neither", do="add guidance")
        require(known, "unknown grid", got=self.grid, allowed=", ".join(GRIDS), do="choose one of them")
