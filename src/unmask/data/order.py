"""Which rows make up step s: a pure function of (seed, step), shuffled without replacement within each epoch.

The shuffle is a keyed permutation computed element by element (a Feistel network on the row number, walked
until it lands inside the range), so no list of a billion indices is ever made and any step can be asked for.
"""

import numpy as np
from numpy.typing import NDArray

from ..mistakes import require

Indices = NDArray[np.int64]
_ROUNDS = 6
_GOLDEN = 0x9E3779B97F4A7C15


def permute(index: Indices, size: int, key: Indices | int) -> Indices:
    """A random-looking permutation of 0..size−1, a different one for every key (one key, or one per index)."""
    half = max(1, (max(size - 1, 1).bit_length() + 1) // 2)
    keys = np.broadcast_to(np.asarray(key, dtype=np.uint64), np.shape(index))
    result = _feistel(np.asarray(index, dtype=np.uint64), half, keys)
    while (outside := result >= size).any():  # each walk is short: the domain is less than four times the range
        result[outside] = _feistel(result[outside], half, keys[outside])
    return result.astype(np.int64)


def _feistel(x: NDArray[np.uint64], half: int, key: NDArray[np.uint64]) -> NDArray[np.uint64]:
    low = np.uint64((1 << half) - 1)
    left, right = x >> np.uint64(half), x & low
    for number in range(_ROUNDS):
        mixed = mix(right ^ (key + np.uint64(number * _GOLDEN % 2**64)))
        left, right = right, left ^ (mixed & low)
    return (left << np.uint64(half)) | right


def mix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of splitmix64: every input bit reaches every output bit."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def spread(size: int, count: int) -> Indices:
    """`count` of `size` rows, spread evenly: so are the first few of them, however many follow.

    These are numbers with their bits reversed (the van der Corput sequence), without those that are not rows: more than
    half of the numbers below the next power of two are rows, and so are, up to a few, those of any first part of it.
    """
    bits, count = max(1, (size - 1).bit_length()), min(size, count)
    number = np.arange(min(1 << bits, 2 * (count + bits)), dtype=np.int64)
    reverse = np.zeros_like(number)
    for bit in range(bits):
        reverse = reverse << 1 | number >> bit & 1
    return reverse[reverse < size][:count]


def rows_of_step(
    size: int, seed: int, step: int, batch_size: int, rank: int = 0, ranks: int = 1
) -> tuple[Indices, Indices]:
    """(epoch, row) of each sample of this rank's part of the batch at a step.

    All ranks together read what a single process would; rank r gets samples r·B/R .. (r+1)·B/R − 1.
    """
    require(size >= 1, "there are no rows", got=size, allowed="at least one row", do="prepare more data")
    require(
        batch_size % ranks == 0,
        "the batch does not divide among the ranks",
        got=f"{batch_size} rows for {ranks} ranks",
        allowed=f"a multiple of {ranks}",
        do="change the batch size",
    )
    share = batch_size // ranks
    sample = step * batch_size + rank * share + np.arange(share, dtype=np.int64)
    epoch, place = sample // size, sample % size
    return epoch, permute(place, size, epoch_key(seed, epoch))


def epoch_key(seed: int, epoch: Indices) -> Indices:
    """One key for each epoch of a seed."""
    return mix(np.asarray(epoch, dtype=np.uint64) + mix(np.full(1, seed, dtype=np.uint64))).view(np.int64)
