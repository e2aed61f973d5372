"""How to sample."""

from dataclasses import dataclass, field
from typing import Any, Literal

from ..core import cosine_grid, uniform_grid
from ..mistakes import require

GRIDS = {"uniform": uniform_grid, "cosine": cosine_grid}


@dataclass(frozen=True)
class Sampling:
    """How to sample."""

    sampler: str | None = None
    """See `unmask samplers`; None: that of the model's family, mostly ancestral."""
    steps: int = 256
    """Of the grid, for samplers that walk along one."""
    grid: Literal["uniform", "cosine"] | None = None
    """None: cosine for the linear schedule and exponents per token, as the paper advises; uniform for others."""
    seed: int = 0
    """Sample i depends on the seed and i only."""
    temperature: float = 1.0
    """Below 1 more likely tokens; 0 only the most likely. Changes the law."""
    top_k: int | None = None
    """Only the k most likely tokens."""
    top_p: float | None = None
    """Only the most likely tokens that make up this much."""
    label: int | None = None
    """The class to sample from."""
    guidance: float | None = None
    """More than 1: more of the class, or, without one, of what was given in a prompt."""
    rising: bool = False
    """Guidance that is weak while most is masked."""
    batch_size: int = 64
    """Samples at once."""
    options: dict[str, Any] = field(default_factory=dict)
    """The sampler's own."""

    def __post_init__(self) -> None:
        for name in ("steps", "batch_size"):
            value = getattr(self, name)
            good = isinstance(value, int) and value >= 1
            require(good, f"{name} is not positive", got=value, allowed="an integer >= 1", do="change it")
        known = self.grid is None or self.grid in GRIDS
        used = self.guidance is not None or not self.rising
        require(used, "nothing rises", got="rising without guidance", allowed="both, or neither", do="add guidance")
        require(known, "unknown grid", got=self.grid, allowed=", ".join(GRIDS), do="name one of them")
