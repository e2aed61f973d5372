"""The random numbers of `Streams.uniform` in one kernel: as tensor operations they take over a hundred launches."""

import torch
import triton
import triton.language as tl
from torch import Tensor

_BLOCK = 256


@triton.jit(do_not_specialize=["call", "step", "seed_low", "seed_high"])
def _uniform(out, index, call, step, seed_low, seed_high, count, BLOCK: tl.constexpr):
    row, block = tl.program_id(1), tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    seed = (seed_high.to(tl.uint64) << 32) | (seed_low.to(tl.uint64) & 0xFFFFFFFF)
    zero = block * 0
    sample = tl.load(index + row).to(tl.uint32)
    a, b, c, d = tl.philox(seed, block, zero + call.to(tl.uint32), zero + sample, zero + step.to(tl.uint32))
    out += row.to(tl.int64) * count
    for half in tl.static_range(2):  # a block is two uniforms
        high, low = (a, b) if half == 0 else (c, d)
        bits = ((high >> 6).to(tl.uint64) << 26) | (low >> 6).to(tl.uint64)  # 52 of them
        place = 2 * block + half
        tl.store(out + place, (bits.to(tl.float64) + 0.5) * 2.220446049250313e-16, place < count)


def uniform(index: Tensor, call: int, step: int, seed: int, count: int) -> Tensor:
    """Float64 uniforms [B, count] for the samples `index` [B]."""
    out = torch.empty(len(index), count, dtype=torch.float64, device=index.device)
    if out.numel():
        grid = (triton.cdiv(count, 2 * _BLOCK), len(index))
        _uniform[grid](out, index, call, step, seed & 0xFFFFFFFF, seed >> 32, count, _BLOCK)
    return out
