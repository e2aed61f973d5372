"""A bidirectional transformer: RoPE, QK-norm, pre-norm, gated or squared-ReLU MLP, zero-initialised outputs.

Time and class enter by adaLN-zero (Peebles and Xie, 2023). Data of any shape is read as one sequence.
Legend: B samples, N positions, D width, H heads, V tokens in the vocabulary.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..core import Streams
from ..mistakes import require
from .conditioning import Condition, Conditioning, check_label
from .fused import norm_rotate, rms_norm, squared_relu_mlp
from .network import (
    Dropout,
    HiddenLayer,
    Network,
    check_sizes,
    draw_channels,
    in_compute_dtype,
    linear,
    output_map,
    per_branch,
    rounded_up,
    run_block,
)


@dataclass(frozen=True)
class TransformerConfig:
    """Shape of a transformer. The paper's text models: 12 layers, 12 heads, width 768; medium 24, 16, 1024."""

    vocab_size: int
    """Number of tokens in the vocabulary, without the mask."""
    layers: int = 12
    """Number of transformer blocks."""
    heads: int = 12
    """Attention heads per block."""
    width: int = 768
    """Width of the hidden vectors."""
    mlp: Literal["gated", "relu2"] = "gated"
    """Activation of the MLPs: gated (SiLU) or relu2 (squared ReLU)."""
    positions: int = 0
    """Number of learned position embeddings, for rows whose positions mean something (pixels, molecules); 0: none."""
    # RoPE sees distances only: where all is masked, it cannot tell positions apart, which suits running text.
    causal: bool = False
    """Predict each token from the preceding ones only (autoregressive models)."""
    block: int = 0
    """Size of the blocks for block diffusion: a block sees itself and those before it. 0 for no blocks."""
    tied: bool = False
    """Share one matrix between embeddings and output, which leaves more parameters for the layers of a small model."""
    value_residuals: bool = False
    """Mix the attention values of the first layer into those of all others, by learned shares (Zhou et al., 2024)."""
    conditioning: Conditioning = field(default_factory=Conditioning)
    dropout: float = 0.0
    """Channel-wise dropout: probability that a channel of a residual branch is dropped for a whole sample."""
    recompute: bool = False
    """Recompute blocks in the backward pass instead of keeping their activations."""

    def __post_init__(self) -> None:
        check_sizes(self, "vocab_size", "layers", "heads", "width")
        check_sizes(self, "positions", "block", least=0)
        require(
            self.width % self.heads == 0 and (self.width // self.heads) % 2 == 0,
            "the heads do not fit the width",
            got=f"width {self.width}, {self.heads} heads",
            allowed="an even width / heads",
            do="change one of them",
        )
        require(self.mlp in MLPS, "unknown MLP", got=self.mlp, allowed=", ".join(MLPS), do="choose one of them")
        require(0 <= self.dropout < 1, "dropout is out of range", got=self.dropout, allowed="0 <= p < 1", do="lower it")

    @property
    def condition_width(self) -> int:
        """Width of the vector that carries time and class."""
        return self.conditioning.condition_width or self.width

    def build(self) -> "Transformer":
        """Build the network."""
        return Transformer(self)


class GatedMlp(HiddenLayer):
    """W_out (silu(W_gate x) ⊙ W_up x), with two thirds of the usual hidden width to keep the number of parameters."""

    stacked: ClassVar[dict[str, int]] = {"into": 2}

    def __init__(self, width: int, zero_out: bool):
        super().__init__()
        hidden = -(-8 * width // (3 * 64)) * 64  # 8/3 of the width, rounded up to a multiple of 64
        self.into = linear(width, 2 * hidden)
        self.out = linear(hidden, width, zero=zero_out)

    def forward(self, x: Tensor) -> Tensor:
        gate, up = self.into(x).chunk(2, dim=-1)
        result: Tensor = self.out(F.silu(gate) * up)
        return result


class SquaredReluMlp(HiddenLayer):
    """W_out relu(W_in x)²."""

    def __init__(self, width: int, zero_out: bool):
        super().__init__()
        self.into = linear(width, 4 * width)
        self.out = linear(4 * width, width, zero=zero_out)

    def forward(self, x: Tensor) -> Tensor:
        return squared_relu_mlp(x, self.into.weight, self.out.weight)


MLPS: dict[str, Callable[[int, bool], nn.Module]] = {"gated": GatedMlp, "relu2": SquaredReluMlp}


class KVCache:
    """Keys and values [B, H, N, D/H] that an attention layer has computed so far, reading from left to right."""

    def __init__(self) -> None:
        self.kept: tuple[Tensor, Tensor] | None = None
        self.final = True
        """Whether the tokens read next are final; if not, their keys and values are not kept."""

    def extended(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """The cached keys and values followed by those of the next positions."""
        if self.kept is not None:
            k, v = (torch.cat([old, new], dim=2) for old, new in zip(self.kept, (k, v), strict=True))
        if self.final:
            self.kept = k, v
        return k, v


class Attention(HiddenLayer):
    """Full or causal self-attention; queries and keys are normalised per head and rotated by their position.

    With value residuals, v ← (1 − λ) v + λ v_1, where v_1 are the values of the first layer; λ starts at ½.
    """

    stacked: ClassVar[dict[str, int]] = {"qkv": 3}

    def __init__(self, width: int, heads: int, zero_out: bool, causal: bool = False, mixes: bool = False):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.qkv = linear(width, 3 * width)
        self.scale_q, self.scale_k = (nn.Parameter(torch.ones(width // heads)) for _ in range(2))
        self.share = nn.Parameter(torch.full((1,), 0.5)) if mixes else None
        self.out = linear(width, width, zero=zero_out)

    def forward(
        self,
        x: Tensor,
        cos: Tensor,
        sin: Tensor,
        cache: KVCache | None = None,
        seen: Tensor | None = None,
        first: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """The output at each position, and the values [B, H, N, D/H] it was computed from."""
        scales = torch.stack([self.scale_q, self.scale_k])
        q, k, v = norm_rotate(self.qkv(x).unflatten(-1, (3, self.heads, -1)), scales, cos, sin)
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        if self.share is not None and first is not None:
            v = torch.lerp(v, first, self.share.to(v.dtype))
        values = v
        if cache is None:
            mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=seen, is_causal=self.causal)
        else:
            k, v = cache.extended(k, v)
            if self.causal:
                every = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=x.device)
                seen = every.tril(k.shape[2] - q.shape[2])
            mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=seen)
        return self.out(mixed.transpose(1, 2).flatten(2)), values


class Rotations(nn.Module):
    """cos and sin of position × frequency [N, 1, D/2H], float32; a table, since compiled code would recompute them."""

    TABLE = 16_384
    cos: Tensor
    sin: Tensor

    def __init__(self, head_width: int):
        super().__init__()
        self.head_width = head_width
        for name, values in zip(("cos", "sin"), self._of(self.TABLE, None), strict=True):
            self.register_buffer(name, values, persistent=False)

    def forward(self, length: int) -> tuple[Tensor, Tensor]:
        if length > self.TABLE:
            return self._of(length, self.cos.device)
        return self.cos[:length], self.sin[:length]

    def _of(self, length: int, device: torch.device | None) -> tuple[Tensor, Tensor]:
        share = torch.arange(0, self.head_width, 2, device=device, dtype=torch.float32) / self.head_width
        angle = torch.arange(length, device=device, dtype=torch.float32)[:, None] * 10_000.0**-share
        return angle.cos()[:, None], angle.sin()[:, None]


class Block(nn.Module):
    """x + gate·attention(norm x), then x + gate·mlp(norm x); shift, scale and gate come from the condition.

    Without a condition the branches end in zero matrices, with one in zero gates: either way a new block is the
    identity. The norms have no scales of their own, since the matrices after them can scale.
    """

    def __init__(self, config: TransformerConfig, is_first: bool):
        super().__init__()
        conditioned = config.conditioning.any
        mixes = config.value_residuals and not is_first
        self.hands_on = config.value_residuals and is_first
        self.attention = Attention(config.width, config.heads, not conditioned, config.causal, mixes)
        self.mlp = MLPS[config.mlp](config.width, not conditioned)
        self.modulation = zero_map(config.condition_width, 6 * config.width) if conditioned else None

    def forward(
        self,
        x: Tensor,
        cos: Tensor,
        sin: Tensor,
        c: Tensor | None,
        keep_1: Tensor | None = None,
        keep_2: Tensor | None = None,
        seen: Tensor | None = None,
        first: Tensor | None = None,
        cache: KVCache | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """The output, and the values of the first layer if later layers need them."""
        if self.modulation is None or c is None:
            mixed, values = self.attention(rms_norm(x), cos, sin, cache, seen, first)
            x = x + _keep(mixed, keep_1)
            x = x + _keep(self.mlp(rms_norm(x)), keep_2)
        else:
            shift_1, scale_1, gate_1, shift_2, scale_2, gate_2 = self.modulation(c)[:, None].chunk(6, dim=-1)
            mixed, values = self.attention(modulate(rms_norm(x), shift_1, scale_1), cos, sin, cache, seen, first)
            x = x + gate_1 * _keep(mixed, keep_1)
            x = x + gate_2 * _keep(self.mlp(modulate(rms_norm(x), shift_2, scale_2)), keep_2)
        return x, values if self.hands_on else first


class Blocks(nn.ModuleList):
    """A sequence of blocks."""

    def __init__(self, config: TransformerConfig):
        super().__init__(Block(config, is_first=i == 0) for i in range(config.layers))

    def through(
        self,
        x: Tensor,
        rotations: tuple[Tensor, Tensor],
        c: Tensor | None,
        keep: Sequence[Tensor | None],
        *,
        recompute: bool = False,
        seen: Tensor | None = None,
        caches: Sequence[KVCache | None] = (),
    ) -> Tensor:
        """Run all blocks in order. `keep`: two entries per block; `caches`: one per block, or none."""
        first: Tensor | None = None
        caches = caches or [None] * len(self)
        for block, keep_1, keep_2, cache in zip(self, keep[::2], keep[1::2], caches, strict=True):
            x, first = run_block(block, recompute, x, *rotations, c, keep_1, keep_2, seen, first, cache)
        return x


def zero_map(width_in: int, width_out: int) -> nn.Linear:
    """The map from the condition to shifts, scales and gates, initialised to zero (adaLN-zero)."""
    return linear(width_in, width_out, bias=True, zero=True)


def modulate(x: Tensor, shift: Tensor, scale: Tensor) -> Tensor:
    """x (1 + scale) + shift."""
    return x * (1 + scale) + shift


def _keep(x: Tensor, keep: Tensor | None) -> Tensor:
    return x if keep is None else x * keep[:, None].to(x.dtype)


def blocks_seen(length: int, block: int, pair: bool, device: torch.device) -> Tensor:
    """The attention mask [N, N] in which each position sees its own block and those before it.

    With `pair`, for a clean copy followed by a masked one [2N, 2N]: a masked block sees itself and the clean blocks
    before it.
    """
    number = torch.arange(length, device=device) // block
    before, same = number[:, None] > number, number[:, None] == number
    if not pair:
        return before | same
    clean, masked = torch.cat([before | same, torch.zeros_like(same)], 1), torch.cat([before, same], 1)
    return torch.cat([clean, masked])


class Transformer(Network):
    """Tokens → embeddings → blocks → norm → linear head; it starts at zero: uniform predictions (tied: near zero)."""

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.config = config
        self.vocab_size, self.classes = config.vocab_size, config.conditioning.classes
        self.sees_time, self.fixed_shape = config.conditioning.time, config.positions > 0
        self.ragged = not self.fixed_shape
        self.causal, self.block = config.causal, config.block
        tokens = config.vocab_size + 1  # the mask is the last
        self.embedding = nn.Embedding(rounded_up(tokens) if config.tied else tokens, config.width)
        nn.init.normal_(self.embedding.weight, std=0.02)
        self.places = nn.Embedding(config.positions, config.width) if config.positions else None
        if self.places is not None:
            nn.init.normal_(self.places.weight, std=0.02)
        self.blocks = Blocks(config)
        self.rotations = Rotations(config.width // config.heads)
        conditioned = config.conditioning.any
        self.condition = Condition(config.conditioning, config.condition_width) if conditioned else None
        self.modulation = zero_map(config.condition_width, 2 * config.width) if conditioned else None
        self.output = None if config.tied else output_map(config.width, config.vocab_size)

    def features(
        self,
        x_t: Tensor,
        t: Tensor | None = None,
        label: Tensor | None = None,
        dropout: Dropout = (),
        lengths: Tensor | None = None,
    ) -> Tensor:
        """One vector per position. lengths [B]: row lengths, if they differ; nothing sees beyond the end of its row."""
        config = self.config
        tokens, pair = x_t.flatten(1), bool(self.block) and x_t.ndim == 3
        x, c = self._begun(self.shifted(tokens) if self.causal else tokens, t, label, copies=2 if pair else 1)
        length = x_t.shape[-1] if pair else x.shape[1]
        cos, sin = self.rotations(length)
        if pair:
            cos, sin = torch.cat([cos, cos]), torch.cat([sin, sin])
        seen = blocks_seen(length, self.block, pair, x.device) if self.block else None
        if lengths is not None:
            inside = (torch.arange(length, device=x.device) < lengths[:, None])[:, None, None]
            seen = inside if seen is None else inside & seen
        keep = per_branch(dropout, 0, 2 * config.layers)
        x = self.blocks.through(x, (cos, sin), c, keep, recompute=config.recompute, seen=seen)
        x = self._ended(x, c)
        return x[:, length:] if pair else x.reshape(*x_t.shape, -1)

    def shifted(self, tokens: Tensor) -> Tensor:
        """The input of a causal network: at each position the token before it, at the first the mask."""
        return F.pad(tokens[:, :-1], (1, 0), value=self.vocab_size)

    def read(self, shifted: Tensor, caches: list[KVCache], start: int, label: Tensor | None = None) -> Tensor:
        """Features at positions start, start + 1 … [B, M, D] of a network that reads in order, from its input there
        ([B, M]: `shifted` tokens for a causal network, whole blocks for a block network) and the caches of its layers.
        """
        x, c = self._begun(shifted, None, label, start)
        cos, sin = (table[start:] for table in self.rotations(start + x.shape[1]))
        x = self.blocks.through(x, (cos, sin), c, per_branch((), 0, 2 * len(self.blocks)), caches=caches)
        return self._ended(x, c)

    def _begun(
        self, tokens: Tensor, t: Tensor | None, label: Tensor | None, start: int = 0, copies: int = 1
    ) -> tuple[Tensor, Tensor | None]:
        """Embeddings, and the vector of time and class. copies: how many sequences are concatenated in each row."""
        check_label(label, self.config.conditioning.classes)
        x: Tensor = self.embedding(tokens)
        if self.places is not None:
            places = self.places.weight[start : self._known_places(start + x.shape[1] // copies)]
            x = x + places.repeat(copies, 1)
        c = F.silu(self.condition(t, label, len(tokens))) if self.condition is not None else None
        return in_compute_dtype(x), c

    def _ended(self, x: Tensor, c: Tensor | None) -> Tensor:
        x = rms_norm(x)
        if self.modulation is not None and c is not None:
            x = modulate(x, *self.modulation(c)[:, None].chunk(2, dim=-1))
        return x

    def _known_places(self, length: int) -> int:
        require(
            length <= self.config.positions,
            "the sequence is longer than the network's positions",
            got=length,
            allowed=f"at most {self.config.positions}",
            do="shorten it, or train with more positions",
        )
        return length

    def parts(self) -> list[nn.Module]:
        return list(self.blocks)

    def draw_dropout(self, streams: Streams) -> Dropout:
        factors = draw_channels(self.config.dropout, 2 * self.config.layers, self.config.width, streams)
        return () if factors is None else (factors,)

    def head(self, features: Tensor) -> Tensor:
        logits = F.linear(features, self.embedding.weight) if self.output is None else self.output(features)
        return logits[..., : self.vocab_size]

    def head_parameters(self) -> list[nn.Parameter]:
        return list((self.embedding if self.output is None else self.output).parameters())
