"""The stored frames of a trajectory, from which views, animations and plots are made."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..data.vocabulary import Vocabulary


@dataclass(frozen=True)
class Story:
    """How one sample was generated."""

    tokens: NDArray[np.int64]
    """[F, ...]: the sample after each frame, the first as it was given; `mask_id` where nothing is revealed."""
    times: NDArray[np.float64]
    """The time of each frame [F], from 1 down to 0."""
    given: NDArray[np.bool_]
    """[...]: which positions were given at the start."""
    mask_id: int
    vocabulary: Vocabulary
