"""A Markov chain of any length, with conditionals by the forward-backward algorithm."""

import torch
from torch import Tensor

from ...mistakes import require
from .. import checks
from ..categorical import inverse_cdf
from ..streams import Streams
from .law import Law
from .table import check_possible


class MarkovLaw(Law):
    """p(x) = initial(x_1) Π transition(x_{n+1} | x_n)."""

    def __init__(self, initial: Tensor, transition: Tensor):
        vocab_size = len(initial)
        require(
            initial.ndim == 1 and transition.shape == (vocab_size, vocab_size),
            "the chain has the wrong shape",
            got=f"initial {tuple(initial.shape)}, transition {tuple(transition.shape)}",
            allowed="(V,) and (V, V)",
            do="pass one row of transition probabilities per token",
        )
        rows = torch.cat([initial[None], transition]).double()
        sums = rows.sum(1)
        require(
            bool((rows >= 0).all()) and bool(((sums - 1).abs() < 1e-6).all()),
            "the chain's rows are not distributions",
            got=f"smallest entry {rows.min().item():.3g}, row sums {sums.min().item():.9g}..{sums.max().item():.9g}",
            allowed="entries >= 0, rows that sum to 1",
            do="normalise each row",
        )
        self.vocab_size = vocab_size
        self.initial, self.transition = rows[0] / sums[0], rows[1:] / sums[1:, None]

    @classmethod
    def random(cls, vocab_size: int, seed: int = 0) -> "MarkovLaw":
        """Unstructured rows, each uniform on the simplex (Dirichlet(1)); started in the stationary distribution."""
        weights = -Streams(seed, vocab_size).uniform(vocab_size).log()
        return cls.stationary(weights / weights.sum(1, keepdim=True))

    @classmethod
    def stationary(cls, transition: Tensor) -> "MarkovLaw":
        """The chain started in its stationary distribution π P = π, which is unique for an irreducible chain."""
        size = len(transition)
        transition = transition.double()
        balance = transition.T - torch.eye(size, dtype=torch.float64, device=transition.device)
        equations = torch.cat([balance, torch.ones_like(transition[:1])])
        right = torch.zeros_like(equations[:, 0])
        right[-1] = 1
        return cls(torch.linalg.lstsq(equations, right).solution.clamp(min=0), transition)

    def log_prob(self, x: Tensor) -> Tensor:
        checks.tokens(x, self.vocab_size)
        x = x.long()
        return self.initial.log()[x[:, 0]] + self.transition.log()[x[:, :-1], x[:, 1:]].sum(1)

    def entropy(self, length: int) -> float:
        """Entropy H, in nats, of a sequence of this length started in `initial`."""
        row_entropy = -torch.xlogy(self.transition, self.transition).sum(1)
        letters, total = self.initial, -torch.xlogy(self.initial, self.initial).sum()
        for _ in range(length - 1):
            total = total + letters @ row_entropy
            letters = letters @ self.transition
        return total.item()

    def draw(self, length: int, streams: Streams) -> Tensor:
        u = streams.uniform(length)
        x = torch.empty(len(streams), length, dtype=torch.int64, device=u.device)
        law = self.initial.log().expand(len(streams), -1)
        for n in range(length):
            x[:, n] = inverse_cdf(law, u[:, n])
            law = self.transition.log()[x[:, n]]
        return x

    def log_marginals(self, log_evidence: Tensor) -> Tensor:
        """Forward-backward algorithm with messages rescaled at every position."""
        evidence = log_evidence.exp()  # [B, N, V]
        batch, length, _ = evidence.shape
        forward = torch.empty_like(evidence)
        message = self.initial.expand(batch, -1)
        for n in range(length):
            message = _rescale(message * evidence[:, n])
            forward[:, n] = message
            message = message @ self.transition
        backward = torch.ones_like(evidence)
        for n in range(length - 1, 0, -1):
            backward[:, n - 1] = _rescale((backward[:, n] * evidence[:, n]) @ self.transition.T)
        log_marginals = (forward * backward).log()
        check_possible(log_marginals)
        return log_marginals.log_softmax(-1)


def _rescale(message: Tensor) -> Tensor:
    return message / message.sum(1, keepdim=True).clamp(min=torch.finfo(message.dtype).tiny)
