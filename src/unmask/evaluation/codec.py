"""Lossless coding of tokens with a masked diffusion model: the chain rule in groups, entropy-coded.

Group by group, in a random order that both sides know, the model predicts the probability of each token given all
earlier groups, and an entropy coder writes the token in −log2 of its probability bits. With one token per group, the
mean length over orders is the NELBO of a network that does not see the time: the bound is a number of bits that can be
written and read back. Larger groups take fewer network calls, but cost the bits by which their tokens depend on each
other.

Reading repeats the computations of writing on what it has read so far, so it needs the same sums to the last bit.
"""

from typing import Protocol

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from ..core import Process, Streams
from ..mistakes import require
from ..sampling import Predictor
from ..sampling.frame import put
from .ans import SLOTS, Stack
from .chain import groups, require_orders

_TOGETHER = 1 << 24
"""Probabilities held at the same time."""


def random_ranks(streams: Streams, length: int, steps: int) -> Tensor:
    """The group of each token [B, N], 1 to `steps`, of about equal size and in a random order."""
    place = streams.uniform(length).argsort(dim=1, stable=True).argsort(dim=1)
    return 1 + place * min(steps, length) // length


def shares(logits: Tensor) -> Tensor:
    """Where the slots of each token begin, and their end [M, V + 1]: ⌊μ·(2^K − V)⌋ + 1 for each, and the rest for the
    most likely. They are integers, so that the order of summation cannot change them.
    """
    size = logits.shape[-1]
    good = size < SLOTS >> 8
    require(good, "the vocabulary is too large", got=size, allowed=f"< {SLOTS >> 8:,}", do="use a smaller one")
    shared = logits.double().softmax(-1)
    whole, do = bool((shared.sum(-1) > 0).all()), "train it again, or use an earlier checkpoint"
    require(whole, "the model does not predict probabilities", got="NaN", allowed="numbers", do=do)
    counts = (shared * (SLOTS - size)).long() + 1
    likely = counts.argmax(-1, keepdim=True)
    counts.scatter_add_(-1, likely, SLOTS - counts.sum(-1, keepdim=True))
    return F.pad(counts.cumsum(-1), (1, 0))


class Coder(Protocol):
    """One side of the codec: returns the tokens it is given, or those it reads instead."""

    def __call__(self, begins: Tensor, tokens: Tensor) -> Tensor:
        """Where the slots of each token begin [M, V + 1], and tokens [M] → the tokens."""


class Writer:
    """Records the tokens that it is given."""

    def __init__(self) -> None:
        self._written: list[NDArray[np.int64]] = []

    def __call__(self, begins: Tensor, tokens: Tensor) -> Tensor:
        places = torch.stack([tokens, tokens + 1], dim=1).long()
        self._written.append(begins.gather(1, places).cpu().numpy())
        return tokens

    def code(self) -> bytes:
        """The code of all tokens. A stack is read from its end, so the last token is written first."""
        stack = Stack()
        for part in reversed(self._written):
            for start, end in reversed(part.tolist()):
                stack.push(start, end - start)
        return stack.to_bytes()


class Reader:
    """Recovers the tokens that were written, whatever it is given."""

    def __init__(self, code: bytes):
        self._stack = Stack.from_bytes(code)

    def __call__(self, begins: Tensor, tokens: Tensor) -> Tensor:
        return torch.tensor([self._next(row) for row in begins.cpu().numpy()], dtype=tokens.dtype, device=tokens.device)

    def _next(self, begins: NDArray[np.int64]) -> int:
        token = int(begins.searchsorted(self._stack.slot, side="right")) - 1
        self._stack.pop(int(begins[token]), int(begins[token + 1] - begins[token]))
        return token

    @property
    def done(self) -> bool:
        """Whether all that was written has been read."""
        return self._stack.empty


@torch.no_grad()
def passed(predict: Predictor, process: Process, x_0: Tensor, rank: Tensor, coder: Coder) -> Tensor:
    """Pass the tokens of x_0 through a coder, those of rank 1 first, each with its μ given all tokens of lower rank.

    The tokens that a reader starts from do not matter: they are hidden until they are read.
    """
    require_orders(process)
    for where, masked, t in groups(process, rank):
        answer = predict.ask(process.hide(x_0, masked), t, where)
        given, size = x_0[where], max(1, _TOGETHER // answer.vocab_size)
        parts = [slice(start, start + size) for start in range(0, len(answer), size)]
        x_0 = put(x_0, where, torch.cat([coder(shares(answer.of(part)), given[part]) for part in parts]))
    return x_0
