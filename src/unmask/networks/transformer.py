"""A bidirectional transformer: RoPE, QK-norm, pre-norm, gated or squared-ReLU MLP, zero-initialised outputs.

Time and class enter by adaLN-zero (Peebles and Xie, 2023). Data of any shape is read as one sequence.
Legend: B samples, N positions, D width, H heads, V tokens.
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
    maybe_checkpoint,
    output_map,
    per_branch,
    rounded_up,
)


@dataclass(frozen=True)
class TransformerConfig:
    """Shape of a transformer. The paper's text models: 12 layers, 12 heads, width 768; medium 24, 16, 1024."""

    vocab_size: int
    layers: int = 12
    heads: int = 12
    width: int = 768
    mlp: Literal["gated", "relu2"] = "gated"
    """gated (SiLU) or relu2 (squared ReLU)."""
    positions: int = 0
    """Places with a learned embedding, for rows, whose places mean something (the first pixel, the end of a molecule).
    RoPE sees distances only: where everything is masked it cannot tell places apart, which suits running text (0)."""
    causal: bool = False
    """Predict each token from those before it alone (autoregressive models)."""
    block: int = 0
    """Blocks of so many tokens see themselves and those before them (block diffusion); 0: all sees all."""
    tied: bool = False
    """One table for embeddings and output: a small model with many tokens has more left for its layers."""
    value_residuals: bool = False
    """Attention mixes the values of the first layer into those of all others (Zhou et al., 2024), by learned shares."""
    conditioning: Conditioning = field(default_factory=Conditioning)
    dropout: float = 0.0
    """Channel-wise: the chance that a channel of a residual branch is dropped for a whole sample."""
    checkpoint: bool = False
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
        require(self.mlp in MLPS, "unknown MLP", got=self.mlp, allowed=", ".join(MLPS), do="name one of them")
        require(0 <= self.dropout < 1, "dropout is out of range", got=self.dropout, allowed="0 <= p < 1", do="lower it")

    @property
    def condition_width(self) -> int:
        """Of the vector that carries time and class."""
        return self.conditioning.condition_width or self.width

    def build(self) -> "Transformer":
        """The network."""
        return Transformer(self)


class GatedMlp(HiddenLayer):
    """W_out (silu(W_gate x) ⊙ W_up x), with two thirds of the usual hidden width so that the size is the same."""

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
    """What an attention layer has read of a text, from left to right: keys and values [B, H, N, D/H]."""

    def __init__(self) -> None:
        self.kept: tuple[Tensor, Tensor] | None = None
        self.final = True
        """Whether what is read next stays as it is; if not, it is not kept."""

    def extended(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """With those of the next places."""
        if self.kept is not None:
            k, v = (torch.cat([old, new], dim=2) for old, new in zip(self.kept, (k, v), strict=True))
        if self.final:
            self.kept = k, v
        return k, v


class Attention(HiddenLayer):
    """All positions see all positions, or those up to themselves; queries and keys are normalised per head and rotated
    by their place.

    With value residuals v ← (1 − λ) v + λ v_1, where v_1 are the values of the first layer; λ starts at ½.
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
        """What is said of each position, and the values it was said with [B, H, N, D/H]."""
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
    """cos and sin of place × frequency, [N, 1, D/2H], float32: from a table, since a compiler would otherwise compute
    them anew for every number that is rotated.
    """

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

    Without a condition the branches end in zero matrices, with one in zero gates: either way a new block passes
    its input through. The norms have no scales of their own: the matrices behind them do.
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
        """What comes out, and the values of the first layer where others want them."""
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
    """One after another."""

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
        """From the first to the last; `keep`: two for each, `caches`: one for each, or none."""
        first: Tensor | None = None
        caches = caches or [None] * len(self)
        for block, keep_1, keep_2, cache in zip(self, keep[::2], keep[1::2], caches, strict=True):
            x, first = maybe_checkpoint(block, recompute, x, *rotations, c, keep_1, keep_2, seen, first, cache)
        return x


def zero_map(width_in: int, width_out: int) -> nn.Linear:
    """Shifts, scales and gates from the condition, which start at zero (adaLN-zero)."""
    return linear(width_in, width_out, bias=True, zero=True)


def modulate(x: Tensor, shift: Tensor, scale: Tensor) -> Tensor:
    """x (1 + scale) + shift."""
    return x * (1 + scale) + shift


def _keep(x: Tensor, keep: Tensor | None) -> Tensor:
    return x if keep is None else x * keep[:, None].to(x.dtype)


def blocks_seen(length: int, block: int, pair: bool, device: torch.device) -> Tensor:
    """Which place sees which: its own block and those before it, [N, N].

    For a clean copy and a masked one behind it, [2N, 2N]: a masked block sees itself and the clean blocks before it.
    """
    number = torch.arange(length, device=device) // block
    before, same = number[:, None] > number, number[:, None] == number
    if not pair:
        return before | same
    clean, masked = torch.cat([before | same, torch.zeros_like(same)], 1), torch.cat([before, same], 1)
    return torch.cat([clean, masked])


class Transformer(Network):
    """Tokens → embeddings → blocks → norm; the head is a linear map that starts at zero: uniform predictions.

    A tied head is the table of the embeddings, and starts near zero.
    """

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
        """One vector per position. lengths [B]: of rows that differ; nothing looks beyond the end of its row."""
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
        x = self.blocks.through(x, (cos, sin), c, keep, recompute=config.checkpoint, seen=seen)
        x = self._ended(x, c)
        return x[:, length:] if pair else x.reshape(*x_t.shape, -1)

    def shifted(self, tokens: Tensor) -> Tensor:
        """What a causal network is shown at each place: the token before it; at the first, the mask."""
        return F.pad(tokens[:, :-1], (1, 0), value=self.vocab_size)

    def read(self, shifted: Tensor, caches: list[KVCache], start: int, label: Tensor | None = None) -> Tensor:
        """Features of places start, start + 1 … [B, M, D], from what a network that reads in order is shown there
        (`shifted` for a causal one, whole blocks for one of blocks; [B, M]) and what its layers have read before.
        """
        x, c = self._begun(shifted, None, label, start)
        cos, sin = (table[start:] for table in self.rotations(start + x.shape[1]))
        x = self.blocks.through(x, (cos, sin), c, per_branch((), 0, 2 * len(self.blocks)), caches=caches)
        return self._ended(x, c)

    def _begun(
        self, tokens: Tensor, t: Tensor | None, label: Tensor | None, start: int = 0, copies: int = 1
    ) -> tuple[Tensor, Tensor | None]:
        """Embeddings, and what time and class say. copies: how many sequences lie one behind the other."""
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
            "the sequence is longer than the network's places",
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
