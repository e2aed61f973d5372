"""Distributions q(k) of k, the number of masked tokens."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from ..mistakes import require


class KLaw(Protocol):
    """A distribution of k on {1..n}: quantiles, and probabilities for the weight 1/(k q(k)).

    most: an upper bound on all n; passing it avoids waiting for a GPU.
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
    """q(k) = 1/n: the distribution that the bound itself averages over."""

    symmetric = True

    def quantile(self, u: Tensor, n: Tensor, most: int | None = None) -> Tensor:
        """⌊un⌋ + 1, computed from the nearer end, so that 1−u gives exactly n+1−k."""
        del most
        return torch.where(u < 0.5, (u * n).floor() + 1, n - ((1 - u) * n).floor()).long()

    def prob(self, k: Tensor, n: Tensor, most: int | None = None) -> Tensor:
        del k, most
        return 1 / n.double()


class TabulatedK(ABC):
    """A distribution given by an unnormalised mass for every k."""

    @property
    def symmetric(self) -> bool:
        return False

    @abstractmethod
    def mass(self, k: Tensor, n: Tensor) -> Tensor:
        """The mass of k [..., K] (float64) for rows with n [..., 1] tokens."""

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
    """q(k) ∝ k^-power. Few masked tokens have weight N/k and vary most: power ½ draws them more often."""

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
    """q(k) ∝ r^(a−1) (1−r)^(b−1) at r = (k−½)/n: the masked share follows Beta(a, b), mostly in the middle.

    With almost nothing masked the task is easy, with almost everything masked it is hopeless; the range between is the
    most instructive.
    """

    a: float = 2.0
    b: float = 2.0

    def __post_init__(self) -> None:
        require(
            0 < self.a < math.inf and 0 < self.b < math.inf,
            "the parameters of the bell are out of range",
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
        """Computed from the nearer end, so that with a = b the quantile at 1−u is exactly n+1−k."""
        below = super().quantile(torch.where(u < 0.5, u, 1 - u), n, most)
        mirrored = BellK(self.b, self.a)
        above = n + 1 - TabulatedK.quantile(mirrored, torch.where(u < 0.5, u, 1 - u), n, most)
        return torch.where(u < 0.5, below, above)
