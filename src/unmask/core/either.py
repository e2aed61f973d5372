"""Estimators for both kinds of schedules: one for all tokens, or one per token."""

from torch import Tensor

from .estimator import ContinuousTime, Estimator, ExactK, Steps
from .generalized import TokenSteps, TokenTime
from .k_law import KLaw, PowerK
from .points import Spread, balanced, lattice
from .process import Process
from .race import TokenExactK


def exact_k_of(process: Process, spread: Spread, law: KLaw) -> ExactK:
    """The estimator that masks exactly k tokens."""
    return (TokenExactK if process.schedule.per_token else ExactK)(process, spread, law)


def low_variance(process: Process) -> ExactK:
    """The default estimator for measuring a bound: k spread evenly, with q(k) ∝ k^-½."""
    return exact_k_of(process, balanced, PowerK(0.5))


def at_times(process: Process) -> Estimator:
    """The paper's estimator: low-discrepancy times, tokens masked independently."""
    return (TokenTime if process.schedule.per_token else ContinuousTime)(process, lattice)


def at_steps(process: Process, grid: Tensor) -> Estimator:
    """The estimator of the bound of a sampler that takes these steps."""
    return (TokenSteps if process.schedule.per_token else Steps)(process, grid)
