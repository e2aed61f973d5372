"""The paper's ImageNet 64×64 network: a residual U-Net around a diffusion transformer (App. J).

Residual blocks at full resolution on both sides, in the middle a transformer over patches with adaLN-zero. The
likelihood model has 48 blocks and 12 layers (198 M parameters), the lighter one 8 blocks and 20 layers. The
paper does not give the width of the convolutions nor the patch size; these are chosen to match its count.
"""

from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..core import Streams
from ..mistakes import require
from .conditioning import Condition, Conditioning, check_label
from .network import Network, channel_masks, linear, maybe_checkpoint
from .transformer import Block, TransformerConfig, rotations
from .unet import PixelEmbedding, PixelHead, ResidualBlock, as_image


@dataclass(frozen=True)
class UViTConfig:
    """Shape of the network; the defaults are the paper's ImageNet 64×64 likelihood model."""

    vocab_size: int = 256
    channels: int = 3
    blocks: int = 48
    """Residual blocks on each side."""
    width: int = 168
    """Of the convolutions."""
    groups: int = 24
    patch: int = 2
    """Side of the patches that the transformer sees."""
    layers: int = 12
    heads: int = 12
    transformer_width: int = 768
    conditioning: Conditioning = field(default_factory=lambda: Conditioning(time=True))
    dropout: float = 0.0
    checkpoint: bool = False

    def __post_init__(self) -> None:
        require(
            self.width % self.groups == 0,
            "the groups do not fit the width",
            got=f"width {self.width}, {self.groups} groups",
            allowed="a divisor of the width",
            do="change one of them",
        )

    @property
    def transformer(self) -> TransformerConfig:
        """The middle as a transformer of its own."""
        return TransformerConfig(
            self.vocab_size,
            self.layers,
            self.heads,
            self.transformer_width,
            conditioning=self.conditioning,
            dropout=self.dropout,
        )


class UViT(Network):
    """Convolutions down, a transformer over patches, convolutions up."""

    def __init__(self, config: UViTConfig):
        super().__init__()
        self.config = config
        self.vocab_size, self.classes = config.vocab_size, config.conditioning.classes
        width, inner, conditioned = config.width, config.transformer_width, config.conditioning.any

        def block(width_in: int) -> ResidualBlock:
            return ResidualBlock(width_in, width, config.groups, conditioned)

        self.embedding = PixelEmbedding(config.vocab_size, config.channels, width)
        self.condition = Condition(config.conditioning, width) if conditioned else None
        self.condition_inner = linear(width, inner) if conditioned else None
        self.down = nn.ModuleList(block(width) for _ in range(config.blocks))
        self.into = linear(width * config.patch**2, inner)
        self.layers = nn.ModuleList(Block(config.transformer) for _ in range(config.layers))
        self.out = linear(inner, width * config.patch**2, zero=True)
        self.up = nn.ModuleList(block(2 * width) for _ in range(config.blocks + 1))
        self.pixel_head = PixelHead(config.vocab_size, config.channels, width, config.groups)

    def features(
        self, x_t: Tensor, t: Tensor | None = None, label: Tensor | None = None, streams: Streams | None = None
    ) -> Tensor:
        config = self.config
        check_label(label, config.conditioning.classes)
        h = self.embedding(as_image(x_t, config.channels))
        c = F.silu(self.condition(t, label, len(x_t))) if self.condition is not None else None
        keep = iter(channel_masks(config.dropout, 2 * config.blocks + 1, config.width, streams))
        left = [h]
        for block in self.down:
            h = maybe_checkpoint(block, config.checkpoint, h, c, next(keep))
            left.append(h)
        h = h + self._transform(h, c, streams)
        for block in self.up:
            h = maybe_checkpoint(block, config.checkpoint, torch.cat([h, left.pop()], dim=1), c, next(keep))
        return self.pixel_head.features(h).reshape(*x_t.shape, -1)

    def _transform(self, h: Tensor, c: Tensor | None, streams: Streams | None) -> Tensor:
        """The transformer on patches, [B, width, H, W] → the same."""
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
        middle = None if streams is None else streams.fork("middle")
        keep = channel_masks(config.dropout, 2 * config.layers, config.transformer_width, middle)
        for i, layer in enumerate(self.layers):
            tokens = maybe_checkpoint(layer, config.checkpoint, tokens, cos, sin, inner, keep[2 * i], keep[2 * i + 1])
        patches = self.out(tokens).transpose(1, 2)
        grid = patches.reshape(len(h), -1, h.shape[2] // config.patch, h.shape[3] // config.patch)
        return F.pixel_shuffle(grid, config.patch)

    def head(self, features: Tensor) -> Tensor:
        logits: Tensor = self.pixel_head.output(features)
        return logits
