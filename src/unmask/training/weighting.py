"""How the masks of a training step are weighted relative to each other. Evaluation always uses the bound."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ..core import Draw, Estimator, EstimatorWrapper, KLaw, Positions, Streams, UniformK, cross_entropy
from ..core.estimator import count_valid
from ..core.objective import TokenDraw


@dataclass(frozen=True)
class AtEachK(EstimatorWrapper):
    """The weight that the bound gives to k masked tokens, N/k, regardless of how often that k is drawn."""

    law: KLaw

    def draw(self, x_0: Tensor, streams: Streams, *, valid: Tensor | None = None, strata: int | None = None) -> Draw:
        draw = super().draw(x_0, streams, valid=valid, strata=strata)
        tokens = count_valid(x_0, valid).clamp(min=1)
        k = draw.mask.flatten(1).sum(1).clamp(min=1)
        return replace(draw, weight=draw.weight * tokens * self.law.prob(k, tokens, x_0.shape[1:].numel()))


@dataclass(frozen=True)
class Plain(EstimatorWrapper):
    """The cross-entropy of each masked token times 2, its weight under the bound when half of the tokens are masked.

    The optimal denoiser is unchanged as long as the weights depend only on what it sees. If tokens have schedules of
    their own, the weights of the bound also depend on what is masked, μ_n(v) ∝ E[1{x_n = v} / W_M]: in that case only
    N/k, which the denoiser sees, is divided out, which leaves 2k/W_M.
    """

    def draw(self, x_0: Tensor, streams: Streams, *, valid: Tensor | None = None, strata: int | None = None) -> Draw:
        draw = super().draw(x_0, streams, valid=valid, strata=strata)
        if not draw.per_token:
            return replace(draw, weight=torch.full_like(draw.weight, 2.0))
        share = draw.mask.flatten(1).sum(1) / count_valid(x_0, valid).clamp(min=1)
        bound = draw.weight / draw.t if isinstance(draw, TokenDraw) else draw.weight  # its rates are w/t
        return replace(draw, weight=2 * share * bound)

    def losses(self, logits: Tensor, positions: Positions, draw: Draw) -> Tensor:
        del draw
        return cross_entropy(logits, positions)


def elbo(estimator: Estimator, law: KLaw) -> Estimator:
    """Weight N/k: the bound if k is uniform."""
    return estimator if isinstance(law, UniformK) else AtEachK(estimator, law)


def importance(estimator: Estimator, law: KLaw) -> Estimator:
    """Weight 1/(k q(k)): the bound for every distribution of k."""
    del law
    return estimator


def ce(estimator: Estimator, law: KLaw) -> Estimator:
    """The same weight for every masked token."""
    return Plain(elbo(estimator, law) if estimator.process.schedule.per_token else estimator)


WEIGHTINGS = {"elbo": elbo, "importance": importance, "ce": ce}
