"""The mathematics of masked diffusion: schedules, the process, bounds, estimators, sampling, and the oracle.

Depends on torch only. Suggested reading order: `schedule` (α_t), `process` (q and p), `objective` (the bound),
`estimator` with `points` and `k_law` (how times and masks are drawn), `generalized` and `race` (GenMD4), `categorical`
and `streams` (randomness), `exact` (distributions with known answers), `matrices` (the paper's matrix forms).
"""

from . import exact, matrices
from .bound import Bound, estimate_nelbo, fit_surprise
from .categorical import draw_categorical, filter_logits, inverse_cdf, legacy_joint_gumbel
from .checks import trusted
from .custom import Custom
from .either import at_steps, at_times, exact_k_of, low_variance
from .estimator import ContinuousTime, Controlled, Estimator, EstimatorWrapper, ExactK, LogSnr, Steps
from .generalized import TokenSteps, TokenTime, generalized_nelbo, generalized_steps_nelbo, log_q_mask, rloo
from .grid import cosine_grid, fitting_grid, uniform_grid
from .k_law import BellK, KLaw, PowerK, UniformK
from .objective import (
    Draw,
    Nelbo,
    Objective,
    Positions,
    RaceDraw,
    TokenDraw,
    assemble,
    cross_entropy,
    nelbo,
    prior,
    reconstruction,
)
from .points import balanced, iid, lattice, paired, stratified
from .process import Denoiser, Process
from .race import TokenExactK
from .schedule import Cosine, Geometric, Linear, Polynomial, Schedule, Shifted, TokenPolynomial, exponents
from .streams import Streams

__all__ = [
    "BellK",
    "Bound",
    "ContinuousTime",
    "Controlled",
    "Cosine",
    "Custom",
    "Denoiser",
    "Draw",
    "Estimator",
    "EstimatorWrapper",
    "ExactK",
    "Geometric",
    "KLaw",
    "Linear",
    "LogSnr",
    "Nelbo",
    "Objective",
    "Polynomial",
    "Positions",
    "PowerK",
    "Process",
    "RaceDraw",
    "Schedule",
    "Shifted",
    "Steps",
    "Streams",
    "TokenDraw",
    "TokenExactK",
    "TokenPolynomial",
    "TokenSteps",
    "TokenTime",
    "UniformK",
    "assemble",
    "at_steps",
    "at_times",
    "balanced",
    "cosine_grid",
    "cross_entropy",
    "draw_categorical",
    "estimate_nelbo",
    "exact",
    "exact_k_of",
    "exponents",
    "filter_logits",
    "fit_surprise",
    "fitting_grid",
    "generalized_nelbo",
    "generalized_steps_nelbo",
    "iid",
    "inverse_cdf",
    "lattice",
    "legacy_joint_gumbel",
    "log_q_mask",
    "low_variance",
    "matrices",
    "nelbo",
    "paired",
    "prior",
    "reconstruction",
    "rloo",
    "stratified",
    "trusted",
    "uniform_grid",
]
