"""How the masks of a training step are weighed against each other. Evaluation is always the bound."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ..core import Draw, Estimator, EstimatorWrapper, KLaw, Positions, Streams, UniformK, cross_entropy
from ..core.estimator import count_valid
from ..core.objective import TokenDraw


@dataclass(frozen=True)
class AtEachK(EstimatorWrapper):
    """What the bound charges where k tokens are masked, N/k, however often that k is drawn."""

    law: KLaw

    def draw(self, x_0: Tensor, streams: Streams, *, valid: Tensor | None = None, strata: int | None = None) -> Draw:
        draw = super().draw(x_0, streams, valid=valid, strata=strata)
        tokens = count_valid(x_0, valid).clamp(min=1)
        k = draw.mask.flatten(1).sum(1).clamp(min=1)
        return replace(draw, weight=draw.weight * tokens * self.law.prob(k, tokens, x_0.shape[1:].numel()))


@dataclass(frozen=True)
class Plain(EstimatorWrapper):
    """The cross-entropy of each masked token, twice: a batch weighs as under the bound where half of it is masked.

    The best denoiser stays the same as long as weights depend on what it sees. Where tokens have schedules of their
    own, the bound's depend on what is hidden too, μ_n(v) ∝ E[1{x_n = v} / W_M]: there only N/k, which it sees, is
    taken out of them, and 2k/W_M is left.
    """

    def draw(self, x_0: Tensor, streams: Streams, *, valid: Tensor | None = None, strata: int | None = None) -> Draw:
        draw = super().draw(x_0, streams, valid=valid, strata=strata)
        if not draw.per_token:
            return replace(draw, weight=torch.full_like(draw.weight, 2.0))
        share = draw.mask.flatten(1).sum(1) / count_valid(x_0, valid).clamp(min=1)
        bound = draw.weight / draw.t if isinstance(draw, TokenDraw) else draw.weight  # whose rates are w/t
        return replace(draw, weight=2 * share * bound)

    def losses(self, logits: Tensor, positions: Positions, draw: Draw) -> Tensor:
        del draw
        return cross_entropy(logits, positions)


def elbo(estimator: Estimator, law: KLaw) -> Estimator:
    """N/k: the bound if k is uniform."""
    return estimator if isinstance(law, UniformK) else AtEachK(estimator, law)


def importance(estimator: Estimator, law: KLaw) -> Estimator:
    """1/(k q(k)): the bound for every law of k."""
    del law
    return estimator


def ce(estimator: Estimator, law: KLaw) -> Estimator:
    """All the same."""
    return Plain(elbo(estimator, law) if estimator.process.schedule.per_token else estimator)


WEIGHTINGS = {"elbo": elbo, "importance": importance, "ce": ce}
