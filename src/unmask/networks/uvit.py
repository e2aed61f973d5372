"""The paper's ImageNet 64×64 network: a residual U-Net around a diffusion transformer (App. J).

Residual blocks at full resolution on both sides, in the middle a transformer over patches with adaLN-zero. The
likelihood model has 48 blocks and 12 layers (198 M parameters), the lighter one 8 blocks and 20 layers. The
paper does not give the width of the convolutions nor the patch size; these are chosen to match its count.
"""

from dataclasses import dataclass, field, replace

import torch.nn.functional as F
from torch import Tensor, nn

from ..mistakes import require
from .conditioning import Conditioning
from .network import Dropout, linear, maybe_checkpoint, per_branch
from .transformer import Block, TransformerConfig, rotations
from .unet import PixelConfig, PixelNetwork


@dataclass(frozen=True)
class UViTConfig(PixelConfig):
    """Shape of the network; the defaults are the paper's ImageNet 64×64 likelihood model."""

    blocks: int = 48
    width: int = 168
    groups: int = 24
    conditioning: Conditioning = field(default_factory=lambda: Conditioning(time=True))
    patch: int = 2
    """Side of the patches that the transformer sees."""
    layers: int = 12
    heads: int = 12
    transformer_width: int = 768

    def build(self) -> "UViT":
        """The network."""
        return UViT(self)

    @property
    def transformer(self) -> TransformerConfig:
        """The middle as a transformer of its own."""
        return TransformerConfig(
            self.vocab_size,
            self.layers,
            self.heads,
            self.transformer_width,
            conditioning=replace(self.conditioning, condition_width=0),
            dropout=self.dropout,
        )


class UViT(PixelNetwork):
    """Convolutions down, a transformer over patches, convolutions up."""

    def __init__(self, config: UViTConfig):
        super().__init__(config)
        self.config = config
        inner, flat = config.transformer_width, config.width * config.patch**2
        self.condition_inner = linear(config.width, inner) if config.conditioning.any else None
        self.into, self.out = linear(flat, inner), linear(inner, flat, zero=True)
        self.layers = nn.ModuleList(Block(config.transformer) for _ in range(config.layers))

    @property
    def middle_branches(self) -> tuple[int, int]:
        return 2 * self.config.layers, self.config.transformer_width

    def middle(self, h: Tensor, c: Tensor | None, dropout: Dropout) -> Tensor:
        config = self.config
        require(
            h.shape[2] % config.patch == 0 and h.shape[3] % config.patch == 0,
            "the image does not divide into patches",
            got=f"{h.shape[2]}×{h.shape[3]}",
            allowed=f"multiples of {config.patch}",
            do="resize the images",
        )
        tokens = self.into(F.pixel_unshuffle(h, config.patch).flatten(2).transpose(1, 2))
        inner = F.silu(self.condition_inner(c)) if self.condition_inner is not None and c is not None else None
        cos, sin = rotations(tokens.shape[1], config.transformer_width // config.heads, h.device)
        keep = per_branch(dropout, 0, 2 * config.layers)
        for i, layer in enumerate(self.layers):
            tokens = maybe_checkpoint(layer, config.checkpoint, tokens, cos, sin, inner, keep[2 * i], keep[2 * i + 1])
        patches = self.out(tokens).transpose(1, 2)
        grid = patches.reshape(len(h), -1, h.shape[2] // config.patch, h.shape[3] // config.patch)
        return h + F.pixel_shuffle(grid, config.patch)
