"""Score entropy (SEDD, Lou et al., 2024): the network gives ratios s_v = p_t(v)/p_t(m), with unconstrained sum.

At a masked position, with the masking rate β = −α'/α and r = α/(1−α), which all true scores sum up to, the loss is

    β [Σ_v s_v − r log s_{x_0} + r log r − r]  =  −α'/(1−α) · [Z − 1 − log s_{x_0}/r],   Z = Σ_v s_v / r.

SEDD's network outputs c = log s − log r (its "scale by sigma"), so a masked token costs Z − 1 − c_{x_0}. With
μ = softmax(c) this is MD4's −log μ_{x_0} plus Z − 1 − log Z ≥ 0 for not summing to one: for Z = 1 the two are equal.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor

from ..core import (
    ContinuousTime,
    Draw,
    Estimator,
    EstimatorWrapper,
    Positions,
    Process,
    lattice,
    low_variance,
)
from ..core.numeric import softmax_dtype
from ..evaluation.likelihood import DEFAULT, Fit, Taken
from ..mistakes import require
from ..networks import Network
from ..sampling import MASKED, SCORES
from ..training import EstimatorMethod, Needs
from ..training.md4 import SCHEDULES

NOISES = {"log-linear": "linear", "geometric": "geometric"}
"""SEDD's names for the schedules α: 1 − t, and a geometric total rate."""


@dataclass(frozen=True)
class ScoreEntropy(EstimatorWrapper):
    """Draws of another estimator, with the score entropy of c = log s − log r as loss."""

    def losses(self, logits: Tensor, positions: Positions, draw: Draw) -> Tensor:
        del draw
        c = logits.to(softmax_dtype(logits))
        return c.exp().sum(-1) - 1 - c.gather(-1, positions.target[:, None])[:, 0]


@dataclass(frozen=True)
class SEDDConfig(Needs):
    """SEDD with masks: the score entropy of scores with unconstrained sum."""

    needs_time: ClassVar[bool] = True
    noise: Literal["log-linear", "geometric"] = "log-linear"
    """Schedule α_t, by SEDD's name: log-linear (1 − t) or geometric."""
    constrained: bool = False
    """Use scores α/(1−α)·μ, which sum to the correct value; the method is then MD4."""

    def __post_init__(self) -> None:
        known = ", ".join(NOISES)
        require(self.noise in NOISES, "unknown noise", got=self.noise, allowed=known, do="choose one of them")

    def build(self, network: Network) -> "SEDD":
        """Build the method for a network."""
        return SEDD(network, self)


class SEDD(EstimatorMethod):
    """Trains at low-discrepancy times with independent masks."""

    def __init__(self, network: Network, config: SEDDConfig):
        process = Process(SCHEDULES[NOISES[config.noise]](1.0), network.vocab_size)
        ways = ContinuousTime(process, lattice), low_variance(process)
        training, measuring = ways if config.constrained else map(ScoreEntropy, ways)
        super().__init__(network, training, measuring)
        self.family = MASKED if config.constrained else SCORES

    def bound(self, name: str = DEFAULT, steps: Taken | None = None, fit: Fit | None = None) -> Estimator:
        """The same draws, with the score entropy as loss. Steps are those of `ancestral`, not of `analytic`."""
        estimator = super().bound(name, steps, fit)
        return ScoreEntropy(estimator) if self.family is SCORES else estimator
