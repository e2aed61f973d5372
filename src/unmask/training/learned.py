"""GenMD4's schedule as something to learn: one exponent per token (Sec. 6)."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..core import Streams, TokenPolynomial, TokenTime, log_q_mask, rloo
from ..core.process import Process
from ..networks import Network
from .loss import CHUNK, chunked_nelbo

SMALLEST, LARGEST = 0.2, 5.0
"""Bounds of w: below, times near 0 weigh too much; above, a token hides only at the very end."""


class LearnedWeights(nn.Module):
    """w = softplus(ρ), kept within [0.2, 5]; w = 1 at the start, where GenMD4 is MD4 with a linear schedule."""

    def __init__(self, vocab_size: int):
        super().__init__()
        self.rho = nn.Parameter(torch.full((vocab_size,), math.log(math.expm1(1.0)), dtype=torch.float32))

    def forward(self) -> Tensor:
        """The exponents w [V], float64."""
        return F.softplus(self.rho.double()).clamp(SMALLEST, LARGEST)

    def process(self) -> Process:
        """The masking process with the present exponents; gradients flow to them."""
        return Process(TokenPolynomial(self()), len(self.rho))


def rloo_loss(
    network: Network,
    weights: LearnedWeights,
    x_0: Tensor,
    streams: Streams,
    *,
    valid: Tensor | None = None,
    label: Tensor | None = None,
    strata: int | None = None,
    chunk: int = CHUNK,
) -> Tensor:
    """GenMD4's training loss per sequence [B]: two masks at each time, unbiased for the network and for w."""
    process = weights.process()
    estimator = TokenTime(process)
    losses, log_q = [], []
    for draw in estimator.draw_pair(x_0, streams, valid=valid, strata=strata):
        features = network.features(process.hide(x_0, draw.mask), draw.t, label, streams)
        losses.append(chunked_nelbo(network, features, x_0, draw, estimator, chunk).total)
        log_q.append(log_q_mask(process, x_0, draw, valid))
    return rloo(*losses, *log_q)
