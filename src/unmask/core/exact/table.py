"""Any joint distribution over V^N sequences, by enumeration."""

import torch
from torch import Tensor

from ...mistakes import require
from .. import checks
from ..categorical import inverse_cdf
from ..streams import Streams
from .law import Law


class TableLaw(Law):
    """p(x) given as a table of shape [V] * N."""

    def __init__(self, probs: Tensor):
        require(
            probs.ndim >= 1 and len(set(probs.shape)) == 1,
            "the table has the wrong shape",
            got=tuple(probs.shape),
            allowed="V x V x ... x V, one axis per position",
            do="reshape it to [V] * N",
        )
        total = probs.double().sum().item()
        require(
            bool((probs >= 0).all()) and abs(total - 1) < 1e-6,
            "the table is not a distribution",
            got=f"smallest entry {probs.min().item():.3g}, sum {total:.9g}",
            allowed="entries >= 0 that sum to 1",
            do="normalise it",
        )
        self.vocab_size = probs.shape[0]
        self.length = probs.ndim
        self.log_probs = (probs.double() / total).log()

    @classmethod
    def random(cls, vocab_size: int, length: int, seed: int = 0) -> "TableLaw":
        """An unstructured distribution: independent exponential weights, normalised (Dirichlet(1))."""
        weights = -Streams(seed, 1).uniform(*[vocab_size] * length)[0].log()
        return cls(weights / weights.sum())

    def sequences(self) -> Tensor:
        """All V^N sequences, in the order of the flattened table."""
        values = [torch.arange(self.vocab_size, device=self.log_probs.device)] * self.length
        return torch.cartesian_prod(*values).reshape(-1, self.length)

    def entropy(self) -> float:
        """Entropy H = −Σ p log p, in nats."""
        p = self.log_probs.exp()
        return -torch.where(p > 0, p * self.log_probs, 0.0).sum().item()

    def log_prob(self, x: Tensor) -> Tensor:
        checks.tokens(x, self.vocab_size)
        self._check_length(x.shape[1])
        return self.log_probs[tuple(x.long().unbind(1))]

    def draw(self, length: int, streams: Streams) -> Tensor:
        self._check_length(length)
        index = inverse_cdf(self.log_probs.flatten()[None], streams.uniform()[None])[0]
        return self.sequences()[index]

    def log_marginals(self, log_evidence: Tensor) -> Tensor:
        self._check_length(log_evidence.shape[1])
        batch, axes = len(log_evidence), range(self.length)
        joint = self.log_probs[None]
        for n in axes:
            shape = [batch] + [1] * self.length
            shape[1 + n] = self.vocab_size
            joint = joint + log_evidence[:, n].reshape(shape)
        marginals = [joint.movedim(1 + n, 1).flatten(2).logsumexp(2) if self.length > 1 else joint for n in axes]
        log_marginals = torch.stack(marginals, 1)
        check_possible(log_marginals)
        return log_marginals.log_softmax(-1)

    def _check_length(self, length: int) -> None:
        require(
            length == self.length,
            "the sequences do not match the table",
            got=f"length {length}",
            allowed=f"length {self.length}",
            do="use sequences of the table's length",
        )


def check_possible(log_marginals: Tensor) -> None:
    """Raise an error for an x_t that cannot occur, given which x_0 has no distribution."""
    require(
        bool((log_marginals > -torch.inf).any(-1).all()),
        "the visible tokens cannot occur under this distribution",
        got="a context of probability 0",
        allowed="contexts of positive probability",
        do="condition on sequences that the distribution can produce",
    )
