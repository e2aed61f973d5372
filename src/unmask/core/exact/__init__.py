"""Distributions with known answers: the oracle that every claim of this package is tested against.

A `Law` provides exact log-probabilities, exact samples and the exact denoiser for scalar and state-dependent
schedules. `forms` writes each form of the bound as a finite sum, so that its value is also known exactly.
"""

from .forms import (
    continuous_time,
    exact_k,
    exact_nelbo,
    log_snr,
    steps,
    token_continuous_time,
    token_exact_k,
    token_steps,
)
from .law import Law
from .markov import MarkovLaw
from .table import TableLaw

__all__ = [
    "Law",
    "MarkovLaw",
    "TableLaw",
    "continuous_time",
    "exact_k",
    "exact_nelbo",
    "log_snr",
    "steps",
    "token_continuous_time",
    "token_exact_k",
    "token_steps",
]
