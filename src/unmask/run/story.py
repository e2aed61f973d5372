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

    def revealed_at(self) -> NDArray[np.int64]:
        """[...]: the frame from which each position has its final value; 0 where it was given."""
        same = self.tokens == self.tokens[-1]
        lasting = np.flip(np.logical_and.accumulate(np.flip(same, 0), 0), 0)
        return np.where(self.given, 0, lasting.argmax(0)).astype(np.int64)

    def pieces(self, frame: int) -> list[str]:
        """Each position of a frame as text, "" where it is masked."""
        flat = self.tokens[frame].ravel()
        return ["" if token == self.mask_id else self.vocabulary.decode([int(token)]) for token in flat]
