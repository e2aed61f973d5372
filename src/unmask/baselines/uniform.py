"""D3PM with uniform noise, or multinomial diffusion (Austin et al., 2021; Hoogeboom et al., 2021): no masks.

The bound of T steps: Σ_t KL(q(x_s | x_t, x_0) ‖ p(x_s | x_t)) at every position; the last step is −log p(x_0 | x_t).
"""

from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from ..core import Draw, Estimator, Linear, Positions, Process, Streams, stratified, uniform_grid
from ..core.estimator import spread_over, steps_at
from ..core.grid import check_grid
from ..core.numeric import softmax_dtype
from ..core.points import Spread
from ..core.uniform_noise import draw_noisy, step_divergence
from ..evaluation.likelihood import DEFAULT, Fit, Taken, time_grid
from ..mistakes import require
from ..networks import Network
from ..sampling import UNIFORM
from ..training import Needs, OwnBound


@dataclass(frozen=True)
class NoisyDraw(Draw):
    """A draw of noisy tokens; `mask` marks the positions with a loss, which are all valid ones."""

    x_t: Tensor = field(kw_only=True)
    s: Tensor = field(kw_only=True)
    """The next time [B]."""


@dataclass(frozen=True)
class UniformSteps(Estimator):
    """One step of the grid per row, with weight T; the grid runs from pure noise to no noise."""

    process: Process
    grid: Tensor
    spread: Spread = stratified

    def __post_init__(self) -> None:
        check_grid(self.grid)

    def draw(
        self, x_0: Tensor, streams: Streams, *, valid: Tensor | None = None, strata: int | None = None
    ) -> NoisyDraw:
        t, s = steps_at(self.grid.to(x_0.device), spread_over(self.spread, x_0, streams, strata))
        noisy = draw_noisy(x_0, self.process.schedule.alpha(t), self.process.vocab_size, streams)
        every = torch.ones_like(x_0, dtype=torch.bool) if valid is None else valid
        none = torch.zeros_like(t)
        count = x_0.numel() if valid is None else None
        weight = torch.full_like(t, len(self.grid) - 1)
        return NoisyDraw(t, every, weight, none, none, none, count, x_t=torch.where(every, noisy, x_0), s=s)

    def network_input(self, x_0: Tensor, draw: Draw) -> Tensor:
        """The noisy tokens."""
        del x_0
        noisy: Tensor = draw.x_t  # type: ignore[attr-defined]  # drawn by this class
        return noisy

    def losses(self, logits: Tensor, positions: Positions, draw: Draw) -> Tensor:
        """KL of the true step from the model's, at each position [R]."""
        schedule, x_t = self.process.schedule, self.network_input(positions.target, draw).flatten()[positions.index]
        s: Tensor = draw.s  # type: ignore[attr-defined]
        alphas = schedule.alpha(s)[positions.sequence], schedule.alpha(draw.t)[positions.sequence]
        log_mu = logits.log_softmax(-1, dtype=softmax_dtype(logits))
        return step_divergence(positions.target, x_t, log_mu, *alphas)


@dataclass(frozen=True)
class MultinomialConfig(Needs):
    """D3PM with uniform noise: random tokens instead of masks, T steps; linear schedule."""

    needs_time: ClassVar[bool] = True
    num_steps: int = 1000
    """Number of diffusion steps T."""

    def __post_init__(self) -> None:
        require(self.num_steps >= 1, "too few steps", got=self.num_steps, allowed=">= 1", do="use 1000")

    def build(self, network: Network) -> "Multinomial":
        """Build the method for a network."""
        return Multinomial(network, self)


class Multinomial(OwnBound):
    """Predicts every token from a sequence in which some tokens are random."""

    family = UNIFORM

    def __init__(self, network: Network, config: MultinomialConfig):
        bound = UniformSteps(Process(Linear(), network.vocab_size), uniform_grid(config.num_steps))
        super().__init__(network, bound, bound, recordable=False)

    def bound(self, name: str = DEFAULT, steps: Taken | None = None, fit: Fit | None = None) -> Estimator:
        """The bound of the steps it was trained with, or of the given ones."""
        own = super().bound(name, fit=fit)
        return own if steps is None else UniformSteps(own.process, time_grid(steps))
