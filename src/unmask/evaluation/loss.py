"""The loss without a [B, N, V] tensor: head and loss are computed at masked positions only, in chunks.

The gradients of a chunk are computed right after its losses, while its logits exist, and kept in place of the logits,
so nothing is computed twice. This works because the training loss is a weighted sum whose weights are known beforehand.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..core import Draw, Estimator, Nelbo, Positions
from ..networks import Network

LOGITS = 1 << 28
"""Maximum number of logits that exist at the same time."""
_DENSE = 512
"""For vocabularies up to this size, logits are computed at all positions."""
_ROWS = 128
"""Chunks are multiples of this many rows, which is faster on matrix units."""

Losses = Callable[[Network, Tensor, Positions, Draw, Estimator], Tensor]


@dataclass(frozen=True)
class Loss:
    """The bound of a batch, in nats."""

    total: Tensor
    """Summed over the sequences; differentiable."""
    nelbo: Nelbo
    """The parts for each sequence; values only, without gradients."""


def chunk_size(vocab_size: int) -> int:
    """Number of positions whose logits exist at the same time."""
    return max(1, LOGITS // vocab_size)


def head_losses(network: Network, hidden: Tensor, positions: Positions, draw: Draw, estimator: Estimator) -> Tensor:
    """The loss at each of these positions [R], from their features [R, D]."""
    logits = network.head(hidden)
    if dense(network):  # at visible positions they may be inf or NaN, which a weight of 0 does not cancel
        logits = logits.where(draw.mask.flatten()[positions.index][:, None], 0.0)
    return estimator.losses(logits, positions, draw)


def masked_loss(
    network: Network,
    features: Tensor,
    x_0: Tensor,
    draw: Draw,
    estimator: Estimator,
    *,
    learned: Sequence[Tensor] = (),
    losses: Losses = head_losses,
    chunk: int | None = None,
) -> Loss:
    """The estimator's bound from the network's features [B, ..., D]; value and gradients equal those of

        estimator.nelbo(network.head(features[mask]), x_0, draw).total.sum()

    `learned`: tensors outside the network that the estimator's losses depend on (GenMD4's w).
    """
    positions, weight, count, size = _masked_positions(x_0, draw, network, chunk)
    hidden = features.flatten(0, -2)
    if len(positions.index) != len(hidden) or not dense(network):
        hidden = hidden.index_select(0, positions.index)
    parts = [slice(start, start + size) for start in range(0, len(hidden), size)]

    def part_losses(hidden: Tensor, part: slice) -> Tensor:
        return losses(network, hidden, positions.part(part), draw, estimator)

    tensors = (hidden, *network.head_parameters(), *learned)
    total, values = _ChunkGradients.apply(part_losses, parts, weight, *tensors)  # type: ignore[no-untyped-call]
    ends = draw.control + draw.reconstruction + draw.prior
    empty = values.new_zeros(x_0.numel())
    laid_out = empty.index_copy(0, positions.index[:count], (weight * values)[:count]).view(len(x_0), -1)
    diffusion = laid_out.sum(1).detach() + draw.control.detach()
    nelbo = Nelbo(diffusion, draw.reconstruction.detach(), draw.prior.detach())
    return Loss(total + ends.sum(), nelbo)


def dense(network: Network) -> bool:
    """Whether the vocabulary is so small that logits at all positions cost less than selecting the masked ones."""
    return network.vocab_size <= _DENSE


def constant_shape(network: Network, draw: Draw) -> bool:
    """Whether the loss of every draw like this one is computed with tensors of the same shapes."""
    return dense(network) or draw.count is not None


def _masked_positions(
    x_0: Tensor, draw: Draw, network: Network, chunk: int | None
) -> tuple[Positions, Tensor, int, int]:
    """The positions with a loss, padded to whole chunks; their weights; their number; the size of a chunk."""
    most, everywhere = chunk_size(network.vocab_size), dense(network)
    if everywhere:
        positions, count = Positions.every(x_0), x_0.numel()
        size = chunk or (count if count <= most else _even(count, most))
    else:
        positions = Positions.of(x_0, draw.mask, draw.count)
        count = len(positions.index)
        size = chunk or _even(count if draw.count is not None else x_0.numel(), most)
    positions = positions.padded(-(-count // size) * size)
    weight = draw.weight.index_select(0, positions.sequence)
    if everywhere:
        weight = weight * draw.mask.flatten()[positions.index]
    weight[count:] = 0  # the padding of the last chunk
    return positions, weight, count, size


def _even(count: int, most: int) -> int:
    """The size of equal chunks that together hold `count` positions, at most about `most` each."""
    chunks = max(1, -(-count // most))
    return max(_ROWS, -(-count // (chunks * _ROWS)) * _ROWS)


class _ChunkGradients(torch.autograd.Function):
    """Σ weight·losses, part by part; the gradient of each part is computed immediately."""

    @staticmethod
    def forward(
        ctx: Any,
        losses: Callable[[Tensor, slice], Tensor],
        parts: list[slice],
        weight: Tensor,
        hidden: Tensor,
        *parameters: Tensor,
    ) -> tuple[Tensor, Tensor]:
        wanted = [hidden, *parameters] if any(ctx.needs_input_grad) else []
        gradients = [torch.zeros_like(tensor) for tensor in wanted]
        alone = len(parts) == 1
        values = [weight.new_zeros(0)]
        for part in parts:
            with torch.set_grad_enabled(bool(wanted)):
                own = hidden[part].detach().requires_grad_(bool(wanted))
                found = losses(own, part)
            values.append(found.detach().to(weight.dtype))
            if wanted:
                with torch.autocast(hidden.device.type, enabled=False):
                    factors = weight[part].to(found.dtype)
                    first, *rest = torch.autograd.grad(found, [own, *parameters], factors, allow_unused=True)
                if alone:
                    gradients[0] = first
                else:
                    gradients[0][part] = first
                for sum_so_far, more in zip(gradients[1:], rest, strict=True):
                    if more is not None:
                        sum_so_far += more
        ctx.save_for_backward(*gradients)
        together = torch.cat(values)
        ctx.mark_non_differentiable(together)
        return (weight * together).sum(), together

    @staticmethod
    def backward(ctx: Any, total: Tensor, values: Tensor) -> tuple[Tensor | None, ...]:
        del values
        # `_foreach_mul`, because multiplying by a scalar tensor on the device is not vectorised otherwise
        return None, None, None, *(torch._foreach_mul([t], total.to(t.dtype))[0] for t in ctx.saved_tensors)


def nelbo_in_chunks(network: Network, x_0: Tensor, draw: Draw, estimator: Estimator, label: Tensor | None, /) -> Nelbo:
    """For `estimate_nelbo`: the bound of a draw without computing logits at every position."""
    features = network.features(estimator.network_input(x_0, draw), draw.t, label)
    return masked_loss(network, features, x_0, draw, estimator).nelbo
