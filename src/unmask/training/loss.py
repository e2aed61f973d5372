"""The loss without a [B, N, V] tensor: the head and the loss only at masked positions, a few thousand at a time."""

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from ..core import Draw, Estimator, Nelbo, Rows, assemble
from ..networks import Network

CHUNK = 4096
"""Masked positions whose logits exist at the same time."""


def chunked_nelbo(
    network: Network, features: Tensor, x_0: Tensor, draw: Draw, estimator: Estimator, chunk: int = CHUNK
) -> Nelbo:
    """The estimator's bound from the network's features [B, ..., D].

    Logits of a chunk are made, used, and made again in the backward pass, so that memory holds chunk × V of them
    instead of all. The value and the gradients are those of `estimator.nelbo(network.head(features[mask]), …)`.
    """
    rows, hidden = Rows.of(x_0, draw.mask), features[draw.mask]

    def losses(hidden: Tensor, part: Rows) -> Tensor:
        return estimator.losses(network.head(hidden), part, draw)

    parts = [
        checkpoint(losses, hidden[start : start + chunk], rows.part(start, start + chunk), use_reentrant=False)
        for start in range(0, len(hidden), chunk)
    ]
    return assemble(torch.cat(parts) if parts else features.new_zeros(0), draw)


def charge_chunks(network: Network, x_0: Tensor, draw: Draw, estimator: Estimator, label: Tensor | None, /) -> Nelbo:
    """For `estimate_nelbo`: charge a draw to a network without logits at every position."""
    features = network.features(estimator.process.hide(x_0, draw.mask), draw.t, label)
    return chunked_nelbo(network, features, x_0, draw, estimator)
