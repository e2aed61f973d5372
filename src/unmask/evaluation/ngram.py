"""Count-based n-gram models: the metric for small language models."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..mistakes import require

Ids = NDArray[Any]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class _Counts:
    """How often each key occurred, keys sorted."""

    keys: NDArray[np.int64]
    counts: NDArray[np.int64]

    @classmethod
    def of(cls, keys: NDArray[np.int64]) -> "_Counts":
        return cls(*np.unique(keys, return_counts=True))

    def __getitem__(self, keys: NDArray[np.int64]) -> Floats:
        """Counts of keys, 0 for unseen ones."""
        if not len(self.keys):
            return np.zeros(keys.shape)
        place = np.searchsorted(self.keys, keys).clip(max=len(self.keys) - 1)
        return np.where(self.keys[place] == keys, self.counts[place], 0).astype(np.float64)


class NGram:
    """An n-gram model with Witten-Bell smoothing: each order falls back to the next lower one, the last to 1/V.

    p_n(x | c) = (count(c x) + T(c)·p_{n−1}(x | c')) / (count(c) + T(c)), T(c) the number of different tokens seen
    after c, c' the context without its first token.
    """

    def __init__(self, tokens: Ids, order: int, vocab_size: int):
        require(order >= 1, "the order is not positive", got=order, allowed="an integer >= 1", do="use 1 for unigrams")
        require(
            order * np.log2(max(vocab_size, 2)) < 63,
            "the order is too large for this vocabulary",
            got=f"order {order}, {vocab_size} tokens",
            allowed="vocabulary^order < 2^63",
            do="lower the order",
        )
        self.order, self.vocab_size = order, vocab_size
        self._grams, self._contexts, self._followers = [], [], []
        for n in range(1, order + 1):
            keys = self._keys(tokens, n)
            grams = _Counts.of(keys)
            self._grams.append(grams)
            self._contexts.append(_Counts.of(keys // vocab_size))
            self._followers.append(_Counts.of(grams.keys // vocab_size))

    def _keys(self, tokens: Ids, n: int) -> NDArray[np.int64]:
        """Each run of n tokens as one number."""
        tokens = tokens.astype(np.int64)
        keys = np.zeros(max(0, len(tokens) - n + 1), dtype=np.int64)
        for i in range(n):
            keys = keys * self.vocab_size + tokens[i : i + len(keys)]
        return keys

    def probs(self, tokens: Ids) -> Floats:
        """p(token | the tokens before it) for every token, with shorter contexts at the beginning."""
        found = np.full(len(tokens), 1.0 / self.vocab_size)
        for n in range(1, self.order + 1):
            keys = self._keys(tokens, n)
            seen, followers = (
                self._contexts[n - 1][keys // self.vocab_size],
                self._followers[n - 1][keys // self.vocab_size],
            )
            lower = found[n - 1 :]
            known = seen > 0
            mixed = (self._grams[n - 1][keys] + followers * lower) / np.where(known, seen + followers, 1)
            found[n - 1 :] = np.where(known, mixed, lower)
        return found

    def bits(self, tokens: Ids) -> float:
        """Mean −log₂ p over the tokens."""
        return float(-np.log2(self.probs(tokens)).mean())
