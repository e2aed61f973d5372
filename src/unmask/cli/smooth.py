"""Moving averages of a noisy sequence, with their standard errors."""

import math
from collections.abc import Iterable

DECAY = 0.95
"""Weight of a value relative to the next one; about the last 1/(1 − d) = 20 values count."""


class Smooth:
    """The mean m = Σ wᵢ xᵢ / W of values with weights wᵢ = d^(n−i) and W = Σ wᵢ; unbiased from the first value on.

    West (1979): each value moves m by (x − m) / W, and S = Σ wᵢ (xᵢ − m)² by the product of its distances from the
    old and the new m.
    """

    def __init__(self, values: Iterable[float] = ()) -> None:
        self.mean = math.nan
        self._weights = self._squares = self._spread = 0.0
        for value in values:
            self.take(value)

    def take(self, value: float) -> None:
        """Include a value."""
        before = self.mean if self._weights else value
        self._weights = DECAY * self._weights + 1
        self._squares = DECAY**2 * self._squares + 1
        self.mean = before + (value - before) / self._weights
        self._spread = DECAY * self._spread + (value - before) * (value - self.mean)

    @property
    def error(self) -> float:
        """Standard error of the mean, for i.i.d. values: σ √(Σ wᵢ²) / W, where E S = σ² (W − Σ wᵢ² / W)."""
        freedom = self._weights - self._squares / self._weights if self._weights else 0.0
        if freedom < 1e-9:  # one value does not determine an error
            return math.nan
        return math.sqrt(self._spread / freedom * self._squares) / self._weights
