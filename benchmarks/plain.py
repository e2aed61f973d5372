"""A straightforward compiled trainer of the same transformer, as a reference: logits at every position, one graph for
the whole network, independent masks; what a careful person would write in an afternoon.
"""

import statistics
import time
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

LAYERS, HEADS, WIDTH = 12, 12, 768


class Block(nn.Module):
    """Attention and an MLP, each preceded by a norm."""

    def __init__(self) -> None:
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(self.norm_1(x)).unflatten(-1, (3, HEADS, -1)).transpose(1, 3).unbind(2)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        result: Tensor = x + self.mlp(self.norm_2(x))
        return result


class Plain(nn.Module):
    """A transformer that maps tokens to the bound on a masked batch."""

    def __init__(self, vocab_size: int, length: int):
        super().__init__()
        self.vocab_size = vocab_size
        self.tokens, self.places = nn.Embedding(vocab_size + 1, WIDTH), nn.Embedding(length, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, vocab_size)

    def forward(self, x_0: Tensor) -> Tensor:
        t = torch.rand(len(x_0), 1, device=x_0.device).clamp(min=1e-3)
        mask = torch.rand(x_0.shape, device=x_0.device) < t
        x = self.tokens(torch.where(mask, self.vocab_size, x_0)) + self.places.weight
        logits = self.head(self.norm(self.blocks(x)))
        losses = F.cross_entropy(logits.flatten(0, 1).float(), x_0.flatten(), reduction="none").view_as(x_0)
        return (losses * mask / t).mean()


def measure(vocab_size: int, length: int, batch: int, *, windows: int = 4, window: int = 8) -> dict[str, Any]:
    """Tokens/s and peak memory, measured like `unmask.run.bench` does."""
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    device = torch.device("cuda")
    with device:
        model = Plain(vocab_size, length)
    step = torch.compile(model)
    optimizer = torch.optim.AdamW(model.parameters(), 3e-4, fused=True)
    x_0 = torch.randint(vocab_size, (batch, length), device=device)

    def run(count: int) -> float:
        start = time.perf_counter()
        for _ in range(count):
            optimizer.zero_grad()
            with torch.autocast("cuda", torch.bfloat16):
                loss = step(x_0)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        torch.cuda.synchronize()
        return time.perf_counter() - start

    run(5)
    speeds = [window * batch * length / run(window) for _ in range(windows)]
    return {
        "tokens_per_s": statistics.median(speeds),
        "spread": [min(speeds), max(speeds)],
        "peak_gib": torch.cuda.max_memory_allocated() / 2**30,
    }
