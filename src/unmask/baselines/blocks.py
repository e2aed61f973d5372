"""Block diffusion (Arriola et al., 2025): blocks from left to right, masked diffusion within each.

−log p(x) ≤ Σ_b NELBO(x^b | x^{<b}): every block is a small MD4 with a clean context. A single block of the whole length
is MD4; blocks of one token are the exact chain rule from left to right. A clean and a masked copy pass through the
network together: a masked block sees itself and the clean blocks before it.
"""

from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from ..core import Draw, Estimator, Linear, Positions, Process, Streams
from ..core.objective import cross_entropy
from ..mistakes import require
from ..networks import Network
from ..sampling import BLOCKS
from ..training import Needs, OwnBound


@dataclass(frozen=True)
class BlockDraw(Draw):
    """A draw with a number of masked tokens per block."""

    factor: Tensor = field(kw_only=True)
    """Weight of a masked token, L/k of its block [B, N]."""


@dataclass(frozen=True)
class InBlocks(Estimator):
    """In each block of L tokens, masks k of them with k uniform on 1..L, with weight L/k."""

    process: Process
    block: int

    @property
    def exact(self) -> bool:  # type: ignore[override]
        """Exact for one token per block, when there is nothing to draw."""
        return self.block == 1

    def draw(
        self, x_0: Tensor, streams: Streams, *, valid: Tensor | None = None, strata: int | None = None
    ) -> BlockDraw:
        del strata
        _check_length(x_0.shape[1], self.block)
        blocks = x_0.shape[1] // self.block
        u = streams.uniform(blocks, self.block)
        rank = u.argsort(-1).argsort(-1)
        k = (streams.uniform(blocks, 1) * self.block).long() + 1
        mask = (rank < k).flatten(1)
        mask = mask if valid is None else mask & valid
        factor = (self.block / k).double().expand(-1, -1, self.block).flatten(1)
        one = torch.ones(len(x_0), dtype=torch.float64, device=x_0.device)
        none = torch.zeros_like(one)
        return BlockDraw(none, mask, one, none, none, none, factor=factor)

    def network_input(self, x_0: Tensor, draw: Draw) -> Tensor:
        """The clean copy and the masked one, [B, 2, N]."""
        return torch.stack([x_0, self.process.hide(x_0, draw.mask)], dim=1)

    def losses(self, logits: Tensor, positions: Positions, draw: Draw) -> Tensor:
        factor: Tensor = draw.factor  # type: ignore[attr-defined]  # drawn by this class
        losses = cross_entropy(logits, positions)
        return losses * factor.flatten()[positions.index].to(losses.dtype)


def _check_length(length: int, block: int) -> None:
    require(
        length % block == 0,
        "the length is not a whole number of blocks",
        got=f"{length} tokens",
        allowed=f"a multiple of {block}",
        do="change --block",
    )


@dataclass(frozen=True)
class BlockConfig(Needs):
    """Block diffusion: masked diffusion within blocks, from left to right; the network's `block` is their size."""

    needs_blocks: ClassVar[bool] = True

    def build(self, network: Network) -> "BlockDiffusion":
        """Build the method for a network."""
        return BlockDiffusion(network)


class BlockDiffusion(OwnBound):
    """Trains on all blocks at once, each given the clean blocks before it."""

    family = BLOCKS

    def __init__(self, network: Network):
        require(
            network.block > 0 and not network.sees_time,
            "this network does not read block by block",
            got=type(network).__name__,
            allowed="a transformer with blocks and without time",
            do="set network.block",
        )
        bound = InBlocks(Process(Linear(), network.vocab_size), network.block)
        super().__init__(network, bound, bound, recordable=False)

    def check_shape(self, shape: tuple[int, ...]) -> None:
        _check_length(shape[0], self.network.block)
