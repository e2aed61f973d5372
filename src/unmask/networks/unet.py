"""The paper's CIFAR-10 network: a U-Net of residual blocks without downsampling (Kingma et al., 2021; App. J).

Tokens are embedded (no Fourier features); 32 blocks form the downward path, followed by a middle with one attention
layer and 33 blocks on the upward path, which read the outputs of the downward path. Images are [B, height, width,
channels] (or without channels), and so are all activations: convolutions are fastest with channels last.
"""

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..core import Streams
from ..core.numeric import softmax_dtype
from ..mistakes import require
from .conditioning import Condition, Conditioning, check_label
from .fused import norm_silu
from .network import (
    Dropout,
    HiddenLayer,
    Network,
    check_sizes,
    draw_channels,
    linear,
    output_map,
    per_branch,
    run_block,
)


@dataclass(frozen=True)
class PixelConfig:
    """Configuration shared by the networks for images."""

    vocab_size: int = 256
    """Number of tokens in the vocabulary (values of a colour channel), without the mask."""
    channels: int = 3
    """Colour channels of an image; 1 for greyscale."""
    blocks: int = 32
    """Number of residual blocks on the downward path; the upward path has one more."""
    width: int = 128
    """Width of the convolutions."""
    groups: int = 32
    """Number of groups in group normalisation."""
    conditioning: Conditioning = field(default_factory=Conditioning)
    dropout: float = 0.0
    """Rate of channel-wise dropout on residual branches."""
    recompute: bool = False
    """Recompute blocks in the backward pass instead of keeping their activations."""

    def __post_init__(self) -> None:
        check_sizes(self, "vocab_size", "channels", "blocks", "width", "groups")
        require(
            self.width % self.groups == 0,
            "the groups do not fit the width",
            got=f"width {self.width}, {self.groups} groups",
            allowed="a divisor of the width",
            do="change one of them",
        )
        require(0 <= self.dropout < 1, "dropout is out of range", got=self.dropout, allowed="0 <= p < 1", do="lower it")


@dataclass(frozen=True)
class UNetConfig(PixelConfig):
    """Shape of the U-Net; the defaults are the paper's CIFAR-10 model (28 M parameters with time)."""

    def build(self) -> "UNet":
        """Build the network."""
        return UNet(self)


class GroupNorm(nn.GroupNorm):
    """Group normalisation of images [B, H, W, C], with statistics in float32."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)

    def then_silu(
        self, x: Tensor, left: Tensor | None = None, shift: Tensor | None = None, keep: Tensor | None = None
    ) -> Tensor:
        """silu(norm([x, left] + shift)) · keep, in one pass (`fused.norm_silu`)."""
        return norm_silu(x, left, shift, self.weight, self.bias, keep, self.num_groups, self.eps)


class Convolution(nn.Conv2d):
    """A 3×3 convolution of images [B, H, W, C] that keeps their size; to PyTorch the memory format is channels last."""

    def __init__(self, width_in: int, width: int, *, bias: bool = True, zero: bool = False):
        super().__init__(width_in, width, 3, padding=1, bias=bias)
        if zero:
            for parameter in self.parameters():
                nn.init.zeros_(parameter)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)


class ResidualBlock(HiddenLayer):
    """x + conv(silu(norm(conv(silu(norm x)) + condition))); the last convolution starts at zero.

    On the upward path x is joined by an output of the downward path; the two are never copied into one tensor.
    """

    spared: ClassVar[frozenset[str]] = frozenset({"condition"})

    def __init__(self, width: int, groups: int, conditioned: bool, joined: bool = False):
        super().__init__()
        width_in = 2 * width if joined else width
        self.norm_1, self.norm_2 = GroupNorm(groups, width_in), GroupNorm(groups, width)
        self.conv_1, self.conv_2 = Convolution(width_in, width, bias=False), Convolution(width, width, zero=True)
        self.shift = nn.Parameter(torch.zeros(width))
        self.condition = linear(width, width) if conditioned else None
        self.skip = linear(width_in, width) if joined else None

    def forward(self, x: Tensor, left: Tensor | None, c: Tensor | None, keep: Tensor | None) -> Tensor:
        shift = self.shift if self.condition is None or c is None else self.shift + self.condition(c)
        h = self.conv_1(self.norm_1.then_silu(x, left))
        h = self.conv_2(self.norm_2.then_silu(h, shift=shift.to(softmax_dtype(shift)).expand(len(x), -1), keep=keep))
        result: Tensor = self._straight(x, left) + h
        return result

    def _straight(self, x: Tensor, left: Tensor | None) -> Tensor:
        if self.skip is None or left is None:
            return x
        of_x, of_left = self.skip.weight.chunk(2, dim=1)
        return F.linear(x, of_x) + F.linear(left, of_left)


class PixelAttention(HiddenLayer):
    """One head of attention over all pixels, added to its input; the output starts at zero."""

    stacked: ClassVar[dict[str, int]] = {"qkv": 3}

    def __init__(self, width: int, groups: int):
        super().__init__()
        self.norm = GroupNorm(groups, width)
        self.qkv, self.out = linear(width, 3 * width), linear(width, width, zero=True)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(self.norm(x).flatten(1, 2))[:, None].chunk(3, dim=-1)  # [B, 1, HW, D] each
        mixed: Tensor = self.out(F.scaled_dot_product_attention(q, k, v)[:, 0])
        return x + mixed.view_as(x)


class PixelEmbedding(nn.Module):
    """Tokens [B, H, W, C] → [B, H, W, width]: each channel's token embedded, the channels mixed by a convolution."""

    def __init__(self, vocab_size: int, channels: int, width: int):
        super().__init__()
        self.tokens = nn.Embedding(vocab_size + 1, width)
        nn.init.normal_(self.tokens.weight, std=1.0)
        self.mix = Convolution(channels * width, width)

    def forward(self, x_t: Tensor) -> Tensor:
        result: Tensor = self.mix(self.tokens(x_t).flatten(3))
        return result


class PixelHead(nn.Module):
    """[B, H, W, width] → one feature vector per pixel and channel [B, H, W, C, width], and from these to logits."""

    def __init__(self, vocab_size: int, channels: int, width: int, groups: int):
        super().__init__()
        self.channels = channels
        self.norm = GroupNorm(groups, width)
        self.spread = Convolution(width, channels * width)
        self.output = output_map(width, vocab_size)

    def forward(self, h: Tensor) -> Tensor:
        """The last nonlinear layer."""
        spread: Tensor = F.silu(self.spread(self.norm.then_silu(h)))
        return spread.view(*spread.shape[:-1], self.channels, -1)


def as_image(x_t: Tensor, channels: int) -> Tensor:
    """Tokens as [B, H, W, C]; greyscale images get a channel axis."""
    image = x_t[..., None] if x_t.ndim == 3 and channels == 1 else x_t
    require(
        image.ndim == 4 and image.shape[-1] == channels,
        "the tokens are not images of this network",
        got=f"shape {tuple(x_t.shape)}",
        allowed=f"[batch, height, width, {channels}]",
        do="check the data and the channels of the network",
    )
    return image


class PixelNetwork(Network):
    """Residual blocks at full resolution, where each block of the upward path reads an output of the downward path.

    Subclasses define the `middle` between the two paths.
    """

    mixed_bytes = 3.8  # group norms run in float32 here, and so do the layers they feed

    def __init__(self, config: "PixelConfig"):
        super().__init__()
        self.vocab_size, self.classes = config.vocab_size, config.conditioning.classes
        self.sees_time = config.conditioning.time
        self.pixels = config
        width, conditioned = config.width, config.conditioning.any

        def block(joined: bool) -> ResidualBlock:
            return ResidualBlock(width, config.groups, conditioned, joined)

        self.embedding = PixelEmbedding(config.vocab_size, config.channels, width)
        self.condition = Condition(config.conditioning, width) if conditioned else None
        self.down = nn.ModuleList(block(joined=False) for _ in range(config.blocks))
        self.up = nn.ModuleList(block(joined=True) for _ in range(config.blocks + 1))
        self.pixel_head = PixelHead(config.vocab_size, config.channels, width, config.groups)

    @abstractmethod
    def middle_parts(self) -> list[nn.Module]:
        """The parts of the middle, for `parts`."""

    def parts(self) -> list[nn.Module]:
        return [*self.down, *self.middle_parts(), *self.up, self.pixel_head]

    @property
    @abstractmethod
    def middle_branches(self) -> tuple[int, int]:
        """Number and width of the residual branches in the middle."""

    @abstractmethod
    def middle(self, h: Tensor, c: Tensor | None, dropout: Dropout) -> Tensor:
        """[B, H, W, width] → the same shape, given the condition [B, width]."""

    def features(
        self, x_t: Tensor, t: Tensor | None = None, label: Tensor | None = None, dropout: Dropout = ()
    ) -> Tensor:
        config = self.pixels
        check_label(label, self.classes)
        h = self.embedding(as_image(x_t, config.channels))
        c = F.silu(self.condition(t, label, len(x_t))) if self.condition is not None else None
        keep = iter(per_branch(dropout, 0, 2 * config.blocks + 1))
        left = [h]
        for block in self.down:
            h = run_block(block, config.recompute, h, None, c, next(keep))
            left.append(h)
        h = self.middle(h, c, dropout[1:])
        for block in self.up:
            h = run_block(block, config.recompute, h, left.pop(), c, next(keep))
        features: Tensor = self.pixel_head(h)
        return features.reshape(*x_t.shape, -1)

    def draw_dropout(self, streams: Streams) -> Dropout:
        config = self.pixels
        factors = draw_channels(config.dropout, 2 * config.blocks + 1, config.width, streams)
        inner = draw_channels(config.dropout, *self.middle_branches, streams)
        return () if factors is None or inner is None else (factors, inner)

    def head(self, features: Tensor) -> Tensor:
        logits: Tensor = self.pixel_head.output(features)[..., : self.vocab_size]
        return logits

    def head_parameters(self) -> list[nn.Parameter]:
        return list(self.pixel_head.output.parameters())


class UNet(PixelNetwork):
    """The paper's U-Net: its middle is two residual blocks with an attention layer between them."""

    def __init__(self, config: UNetConfig):
        super().__init__(config)
        self.config = config
        conditioned = config.conditioning.any
        self.before = ResidualBlock(config.width, config.groups, conditioned)
        self.attention = PixelAttention(config.width, config.groups)
        self.after = ResidualBlock(config.width, config.groups, conditioned)

    def middle_parts(self) -> list[nn.Module]:
        return [self.before, self.after]

    @property
    def middle_branches(self) -> tuple[int, int]:
        return 2, self.config.width

    def middle(self, h: Tensor, c: Tensor | None, dropout: Dropout) -> Tensor:
        keep = per_branch(dropout, 0, 2)
        h = self.attention(self.before(h, None, c, keep[0]))
        result: Tensor = self.after(h, None, c, keep[1])
        return result
