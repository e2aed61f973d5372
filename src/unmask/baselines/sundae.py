"""Unrolled denoising (SUNDAE, Savinov et al., 2022), with masks: the network also corrects its own output.

The term Σ_n −log μ_n(x_0 | x̃) is added to MD4's bound: in x̃ the masked tokens are drawn from the network's own
predictions, so that it learns which of its tokens are wrong. Not a bound; the model is still measured by MD4's bound.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from ..core import ExactK, Linear, Process, Streams, inverse_cdf, stratified
from ..evaluation.loss import chunk_size, masked_loss
from ..networks import Network
from ..training import EstimatorMethod, Needs
from .autoregressive import ChainRule


@dataclass(frozen=True)
class SUNDAEConfig(Needs):
    """SUNDAE-style: a loss on the masked tokens, then on all tokens of the network's own completion."""

    def build(self, network: Network) -> "SUNDAE":
        """Build the method for a network."""
        return SUNDAE(network)


class SUNDAE(EstimatorMethod):
    """Two passes: one over the masked sequence, one over the completion drawn from the first."""

    def __init__(self, network: Network):
        process = Process(Linear(), network.vocab_size)
        super().__init__(network, ExactK(process, stratified), recordable=False)
        self._all = ChainRule(process)

    def forward(
        self,
        x_0: Tensor,
        streams: Streams,
        *,
        valid: Tensor | None = None,
        label: Tensor | None = None,
        strata: int | None = None,
    ) -> Tensor:
        draw = self._training.draw(x_0, streams, valid=valid, strata=strata)
        dropout, u = self.network.draw_dropout(streams), streams.uniform(*x_0.shape[1:])
        features = self._features(self._training.network_input(x_0, draw), draw.t.float(), label, dropout)
        first = masked_loss(self.network, features, x_0, draw, self._training, losses=self._losses)
        again = self._all.draw(x_0, streams, valid=valid)
        written = x_0.masked_scatter(draw.mask, self._tokens(features[draw.mask], u[draw.mask]).to(x_0.dtype))
        features = self._features(written, again.t.float(), label, dropout)
        second = masked_loss(self.network, features, x_0, again, self._all, losses=self._losses)
        return first.total + second.total

    @torch.no_grad()
    def _tokens(self, features: Tensor, u: Tensor) -> Tensor:
        """Tokens drawn from the network's predictions [M]."""
        size = chunk_size(self.network.vocab_size)
        parts = zip(features.split(size), u.split(size), strict=True)  # type: ignore[no-untyped-call]
        return torch.cat([inverse_cdf(self.network.head(part), own) for part, own in parts])
