"""One random stream per sample, from a counter-based generator.

A number is a pure function of (seed, step, sample, call, position): Philox4x32-10 of Salmon et al.,
"Parallel random numbers: as easy as 1, 2, 3" (2011), in integer tensor operations. Sample 17 therefore gets
the same numbers alone or in a batch of 512, in one process or many, on a CPU or a GPU, and before or after
a restart; there is no state to save.
"""

import hashlib
import math

import torch
from torch import Tensor

from ..mistakes import require
from . import checks
from .device import HAVE_TRITON, on_gpu

if HAVE_TRITON:
    from . import philox_kernel

_LOW32 = 0xFFFFFFFF
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10


def philox(
    counter: tuple[Tensor, Tensor, Tensor, Tensor], key: tuple[int, int]
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Philox4x32-10: four 32-bit words from a 128-bit counter and a 64-bit key.

    Words are held in int64; a product of two words wraps modulo 2^64, which leaves both halves correct.
    """
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(_ROUNDS):
        p0, p1 = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        c0, c1, c2, c3 = (
            ((p1 >> 32) & _LOW32) ^ c1 ^ k0,
            p1 & _LOW32,
            ((p0 >> 32) & _LOW32) ^ c3 ^ k1,
            p0 & _LOW32,
        )
        k0, k1 = (k0 + _WEYL[0]) & _LOW32, (k1 + _WEYL[1]) & _LOW32
    return c0, c1, c2, c3


class Streams:
    """Independent streams of uniforms, one for each row of a batch.

    `index` is the sample number of each row (its position in the global batch, or its number among the samples
    to draw); `step` is the training or sampling step. Successive calls return new numbers.
    """

    def __init__(self, seed: int, index: int | Tensor, step: int = 0, device: torch.device | str | None = None):
        """`index` is a tensor of sample numbers [B], or a count B for samples 0..B-1 on `device`."""
        if isinstance(index, int):
            index = torch.arange(index, device=device)
        require(
            0 <= seed < 2**64,
            "seed is out of range",
            got=seed,
            allowed="0 <= seed < 2**64",
            do="pass a non-negative integer",
        )
        require(
            0 <= step <= _LOW32,
            "step is out of range",
            got=step,
            allowed="0 <= step < 2**32",
            do="count steps from 0",
        )
        checks.sample_numbers(index, _LOW32)
        self.seed = seed
        self.index = index.long()  # Philox multiplies 32-bit words, which needs 64 bits
        self.step = step
        self._calls = 0

    def __len__(self) -> int:
        return len(self.index)

    @property
    def device(self) -> torch.device:
        return self.index.device

    def at(self, step: int) -> "Streams":
        """The streams of the same samples at another step, from their beginning."""
        with checks.trusted():  # the sample numbers have already been checked
            return Streams(self.seed, self.index, step)

    def fork(self, label: str, index: Tensor | None = None) -> "Streams":
        """Streams independent of these and of every other fork, for another purpose or another grouping of rows."""
        digest = hashlib.blake2b(f"{self.seed}/{self._calls}/{label}".encode(), digest_size=8).digest()
        self._calls += 1
        return Streams(int.from_bytes(digest, "little"), self.index if index is None else index, self.step)

    def uniform(self, *shape: int) -> Tensor:
        """Float64 uniforms [B, *shape] on the open interval (0, 1): odd multiples of 2^-53, never 0 or 1."""
        (u,) = self.uniforms(1, *shape)
        return u

    def uniforms(self, calls: int, *shape: int) -> list[Tensor]:
        """The results of this many calls of `uniform`, computed at once."""
        count, first = math.prod(shape), self._calls
        self._calls += calls
        if HAVE_TRITON and on_gpu(self.device):
            numbers = range(first, first + calls)
            found = [philox_kernel.uniform(self.index, call, self.step, self.seed, count) for call in numbers]
            return [u.view(len(self), *shape) for u in found]
        block = torch.arange((count + 1) // 2, device=self.device)  # a block is two uniforms
        index = self.index[:, None]
        words = philox(
            (
                block.expand(calls, len(self), -1),
                torch.arange(first, first + calls, device=self.device)[:, None, None],
                index & _LOW32,
                torch.full_like(index, self.step),
            ),
            (self.seed & _LOW32, self.seed >> 32),
        )
        a, b, c, d = (w.expand(calls, len(self), len(block)) for w in words)
        bits = torch.stack([(a >> 6 << 26) | (b >> 6), (c >> 6 << 26) | (d >> 6)], dim=-1)  # 52 bits each
        u = (bits.double() + 0.5) * 2.0**-52
        return list(u.flatten(2)[..., :count].reshape(calls, len(self), *shape))
