"""An hourglass transformer: most layers operate on patches of neighbouring tokens (Nawrot et al., 2021).

Single characters carry little information, so most of the work is done on a shorter sequence of wider vectors: with
patches of p tokens a layer costs p times less, or has p times the parameters at the same cost. The outer layers see
every token.

    x = outer layers(embeddings)                     [B, N, D]
    z = inner layers(W_in · patches(x))              [B, N/p, E]
    x + W_out · z, unpatched → outer layers → norm → head

Legend: B samples, N positions, D width, E inner width, p tokens per patch, V tokens in the vocabulary.
"""

from dataclasses import dataclass, field, replace
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..core import Streams
from .conditioning import Condition, Conditioning, check_label
from .fused import rms_norm
from .network import Dropout, Network, check_sizes, draw_channels, in_compute_dtype, linear, output_map, per_branch
from .transformer import Blocks, Rotations, TransformerConfig, modulate, zero_map


@dataclass(frozen=True)
class HourglassConfig:
    """Shape of an hourglass transformer."""

    vocab_size: int
    """Number of tokens in the vocabulary, without the mask."""
    layers: int = 10
    """Number of inner layers, which operate on patches."""
    inner_heads: int = 8
    """Attention heads of an inner layer."""
    inner_width: int = 1024
    """Width of the vectors that represent patches."""
    outer_layers: int = 2
    """Number of layers that operate on tokens, before the inner layers and again after them."""
    heads: int = 6
    """Attention heads of an outer layer."""
    width: int = 384
    """Width of the vectors that represent tokens."""
    patch: int = 4
    """Tokens per patch."""
    mlp: Literal["gated", "relu2"] = "gated"
    """Activation of the MLPs: gated (SiLU) or relu2 (squared ReLU)."""
    conditioning: Conditioning = field(default_factory=Conditioning)
    dropout: float = 0.0
    """Rate of channel-wise dropout in all layers."""
    recompute: bool = False
    """Recompute blocks in the backward pass instead of keeping their activations."""

    def __post_init__(self) -> None:
        check_sizes(self, "patch")
        _ = self.inner, self.outer  # constructing them checks their values

    @property
    def condition_width(self) -> int:
        """Width of the vector that carries time and class, the same for all layers."""
        return self.conditioning.condition_width or self.inner_width

    @property
    def inner(self) -> TransformerConfig:
        """The inner layers, on patches, as a transformer configuration."""
        return self._part(self.layers, self.inner_heads, self.inner_width)

    @property
    def outer(self) -> TransformerConfig:
        """The outer layers, on tokens, as a transformer configuration."""
        return self._part(self.outer_layers, self.heads, self.width)

    def _part(self, layers: int, heads: int, width: int) -> TransformerConfig:
        seen = replace(self.conditioning, condition_width=self.condition_width)
        return TransformerConfig(
            self.vocab_size, layers, heads, width, self.mlp, conditioning=seen, dropout=self.dropout
        )

    def build(self) -> "Hourglass":
        """Build the network."""
        return Hourglass(self)


class Hourglass(Network):
    """Tokens → outer layers → patches → inner layers → tokens → outer layers → norm; the head starts at zero."""

    fixed_shape, ragged = False, True

    def __init__(self, config: HourglassConfig):
        super().__init__()
        self.config = config
        self.vocab_size, self.classes = config.vocab_size, config.conditioning.classes
        self.sees_time = config.conditioning.time
        self.embedding = nn.Embedding(config.vocab_size + 1, config.width)  # the mask is the last
        nn.init.normal_(self.embedding.weight, std=0.02)
        self.before, self.after = (Blocks(config.outer) for _ in range(2))
        self.inner = Blocks(config.inner)
        flat = config.patch * config.width
        self.into, self.out = linear(flat, config.inner_width), linear(config.inner_width, flat)
        self.rotations = Rotations(config.width // config.heads)
        self.inner_rotations = Rotations(config.inner_width // config.inner_heads)
        conditioned = config.conditioning.any
        self.condition = Condition(config.conditioning, config.condition_width) if conditioned else None
        self.modulation = zero_map(config.condition_width, 2 * config.width) if conditioned else None
        self.output = output_map(config.width, config.vocab_size)

    def features(
        self,
        x_t: Tensor,
        t: Tensor | None = None,
        label: Tensor | None = None,
        dropout: Dropout = (),
        lengths: Tensor | None = None,
    ) -> Tensor:
        """One vector per position; the last patch is padded with masks. lengths [B]: row lengths, if they differ."""
        config = self.config
        check_label(label, config.conditioning.classes)
        tokens = x_t.flatten(1)
        length = tokens.shape[1]
        tokens = F.pad(tokens, (0, -length % config.patch), value=self.vocab_size)
        c = F.silu(self.condition(t, label, len(tokens))) if self.condition is not None else None
        whole, halves = -(-length // config.patch), config.outer_layers
        keep_out, keep_in = per_branch(dropout, 0, 4 * halves), per_branch(dropout, 1, 2 * config.layers)
        seen = seen_in = None
        if lengths is not None:  # each row as if it were alone: padded with masks to whole patches
            tokens = tokens.masked_fill(~_inside(lengths, tokens.shape[1]), self.vocab_size)
            patches = -(-lengths // config.patch)
            seen, seen_in = (
                _inside(n, most)[:, None, None]
                for n, most in ((patches * config.patch, tokens.shape[1]), (patches, whole))
            )

        x = in_compute_dtype(self.embedding(tokens))
        x = self._through(self.before, x, self.rotations, c, keep_out[: 2 * halves], seen)
        z = self.into(rms_norm(x).reshape(len(x), whole, -1))
        z = self._through(self.inner, z, self.inner_rotations, c, keep_in, seen_in)
        x = x + self.out(rms_norm(z)).view_as(x)
        x = rms_norm(self._through(self.after, x, self.rotations, c, keep_out[2 * halves :], seen))
        if self.modulation is not None and c is not None:
            x = modulate(x, *self.modulation(c)[:, None].chunk(2, dim=-1))
        return x[:, :length].reshape(*x_t.shape, -1)

    def _through(
        self,
        blocks: Blocks,
        x: Tensor,
        rotations: Rotations,
        c: Tensor | None,
        keep: list[Tensor | None],
        seen: Tensor | None,
    ) -> Tensor:
        return blocks.through(x, rotations(x.shape[1]), c, keep, recompute=self.config.recompute, seen=seen)

    def parts(self) -> list[nn.Module]:
        return [*self.before, *self.inner, *self.after]

    def draw_dropout(self, streams: Streams) -> Dropout:
        config = self.config
        outer = draw_channels(config.dropout, 4 * config.outer_layers, config.width, streams.fork("outer"))
        inner = draw_channels(config.dropout, 2 * config.layers, config.inner_width, streams.fork("inner"))
        return () if outer is None or inner is None else (outer, inner)

    def head(self, features: Tensor) -> Tensor:
        logits: Tensor = self.output(features)[..., : self.vocab_size]
        return logits

    def head_parameters(self) -> list[nn.Parameter]:
        return list(self.output.parameters())


def _inside(lengths: Tensor, most: int) -> Tensor:
    """Which positions lie within each row, [B, most]."""
    return torch.arange(most, device=lengths.device) < lengths[:, None]
