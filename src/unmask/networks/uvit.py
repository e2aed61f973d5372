"""The paper's ImageNet 64×64 network: a residual U-Net around a diffusion transformer (App. J).

Residual blocks at full resolution on both sides, and in the middle a transformer over patches with adaLN-zero. The
likelihood model has 48 blocks and 12 layers (198 M parameters), the lighter one 8 blocks and 20 layers. The paper
gives neither the width of the convolutions nor the patch size; they are chosen to match its number of parameters.
"""

from dataclasses import dataclass, field, replace

import torch.nn.functional as F
from torch import Tensor, nn

from ..mistakes import require
from .conditioning import Conditioning
from .network import Dropout, check_sizes, linear, per_branch
from .transformer import Blocks, Rotations, TransformerConfig
from .unet import PixelConfig, PixelNetwork


@dataclass(frozen=True)
class UViTConfig(PixelConfig):
    """Shape of the U-ViT; the defaults are the paper's ImageNet 64×64 likelihood model."""

    blocks: int = 48
    width: int = 168
    groups: int = 24
    conditioning: Conditioning = field(default_factory=lambda: Conditioning(time=True))
    patch: int = 2
    """Side length of the patches that the transformer sees, in pixels."""
    layers: int = 12
    """Number of transformer blocks in the middle."""
    heads: int = 12
    """Attention heads per transformer block."""
    transformer_width: int = 768
    """Width of the transformer."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_sizes(self, "patch")
        _ = self.transformer  # constructing it checks its values

    def build(self) -> "UViT":
        """Build the network."""
        return UViT(self)

    @property
    def transformer(self) -> TransformerConfig:
        """The configuration of the transformer in the middle."""
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
        self.layers = Blocks(config.transformer)
        self.rotations = Rotations(inner // config.heads)

    def middle_parts(self) -> list[nn.Module]:
        return list(self.layers)

    @property
    def middle_branches(self) -> tuple[int, int]:
        return 2 * self.config.layers, self.config.transformer_width

    def middle(self, h: Tensor, c: Tensor | None, dropout: Dropout) -> Tensor:
        config = self.config
        _, height, width, _ = h.shape
        require(
            height % config.patch == 0 and width % config.patch == 0,
            "the image does not divide into patches",
            got=f"{height}×{width}",
            allowed=f"multiples of {config.patch}",
            do="resize the images",
        )
        tokens = self.into(patches(h, config.patch))
        inner = F.silu(self.condition_inner(c)) if self.condition_inner is not None and c is not None else None
        keep, rotations = per_branch(dropout, 0, 2 * config.layers), self.rotations(tokens.shape[1])
        tokens = self.layers.through(tokens, rotations, inner, keep, recompute=config.recompute)
        return h + unpatched(self.out(tokens), height, width, config.patch)


def patches(h: Tensor, side: int) -> Tensor:
    """[B, H, W, C] → [B, H·W/side², side²·C], the patches in reading order."""
    batch, height, width, channels = h.shape
    grid = h.reshape(batch, height // side, side, width // side, side, channels)
    return grid.transpose(2, 3).reshape(batch, -1, side**2 * channels)


def unpatched(tokens: Tensor, height: int, width: int, side: int) -> Tensor:
    """The inverse of `patches`."""
    grid = tokens.view(len(tokens), height // side, width // side, side, side, -1)
    return grid.transpose(2, 3).reshape(len(tokens), height, width, -1)
