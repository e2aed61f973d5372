"""Laws of k, the number of masked tokens: which sizes of gap are drawn how often."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from ..mistakes import require


class KLaw(Protocol):
    """A law of k on {1..n}: quantiles, and probabilities for the weight 1/(k q(k)).

    most: that no n is larger than this. With it known, a GPU need not be waited for.
    """

    def quantile(self, u: Tensor, n: Tensor, most: int | None = None) -> Tensor:
        """The u-quantile [B] for each row's n [B]."""
        ...

    def prob(self, k: Tensor, n: Tensor, most: int | None = None) -> Tensor:
        """q(k) [B], float64."""
        ...

    @property
    def symmetric(self) -> bool:
        """Whether the quantiles at u and 1−u always add up to n + 1."""
        ...


@dataclass(frozen=True)
class UniformK:
    """q(k) = 1/n: what the bound itself averages over."""

    symmetric = True

    def quantile(self, u: Tensor, n: Tensor, most: int | None = None) -> Tensor:
        """⌊un⌋ + 1, computed from the nearer end so that 1−u gives exactly n+1−k."""
        del most
        return torch.where(u < 0.5, (u * n).floor() + 1, n - ((1 - u) * n).floor()).long()

    def prob(self, k: Tensor, n: Tensor, most: int | None = None) -> Tensor:
        del k, most
        return 1 / n.double()


class TabulatedK(ABC):
    """A law given by an unnormalised mass for every k."""

    @property
    def symmetric(self) -> bool:
        return False

    @abstractmethod
    def mass(self, k: Tensor, n: Tensor) -> Tensor:
        """The mass of k [..., K] (float64) where the row has n [..., 1] tokens."""

    def _table(self, n: Tensor, most: int | None) -> Tensor:
        """Masses [B, most], zero beyond each row's n."""
        most = int(n.max()) if most is None else most
        k = torch.arange(1, most + 1, device=n.device, dtype=torch.float64)
        return torch.where(k <= n[:, None], self.mass(k.minimum(n[:, None]), n[:, None]), 0.0)

    def quantile(self, u: Tensor, n: Tensor, most: int | None = None) -> Tensor:
        cumulative = self._table(n, most).cumsum(1)
        k = 1 + torch.searchsorted(cumulative, u[:, None] * cumulative[:, -1:], right=True)[:, 0]
        return k.minimum(n)

    def prob(self, k: Tensor, n: Tensor, most: int | None = None) -> Tensor:
        return self.mass(k.double()[:, None], n[:, None])[:, 0] / self._table(n, most).sum(1)


@dataclass(frozen=True)
class PowerK(TabulatedK):
    """q(k) ∝ k^-power. Few masked tokens weigh N/k and vary most: power ½ draws them more often."""

    power: float = 0.5

    def __post_init__(self) -> None:
        require(
            math.isfinite(self.power),
            "the power of k is not finite",
            got=self.power,
            allowed="a finite number",
            do="use 0.5 for likelihoods",
        )

    def mass(self, k: Tensor, n: Tensor) -> Tensor:
        return k**-self.power + 0 * n


@dataclass(frozen=True)
class BellK(TabulatedK):
    """q(k) ∝ r^(a−1) (1−r)^(b−1) at r = (k−½)/n, the Beta(a, b) law of the masked share: most draws in the middle.

    Almost nothing masked is easy, almost everything masked is hopeless; what lies between teaches most.
    """

    a: float = 2.0
    b: float = 2.0

    def __post_init__(self) -> None:
        require(
            0 < self.a < math.inf and 0 < self.b < math.inf,
            "the bell has no shape",
            got=f"a={self.a}, b={self.b}",
            allowed="finite numbers > 0",
            do="use 2 and 2",
        )

    @property
    def symmetric(self) -> bool:
        return self.a == self.b

    def mass(self, k: Tensor, n: Tensor) -> Tensor:
        share = (k - 0.5) / n
        return share ** (self.a - 1) * (1 - share) ** (self.b - 1)

    def quantile(self, u: Tensor, n: Tensor, most: int | None = None) -> Tensor:
        """From the nearer end, so that with a = b the quantile at 1−u is exactly n+1−k."""
        below = super().quantile(torch.where(u < 0.5, u, 1 - u), n, most)
        mirrored = BellK(self.b, self.a)
        above = n + 1 - TabulatedK.quantile(mirrored, torch.where(u < 0.5, u, 1 - u), n, most)
        return torch.where(u < 0.5, below, above)
