"""Validation of arguments: one sentence per mistake, and a switch for hot loops.

Every message states what is wrong, the value received, what is allowed and what to do. Shapes are always
checked, which costs nothing. Values are checked by reading the tensor, which on a GPU waits for the device;
a loop that has already checked its data can turn value checks off:

    with checks.trusted():
        ...
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor

from ..mistakes import fail, require

_trusted = ContextVar("trusted", default=False)


@contextmanager
def trusted() -> Iterator[None]:
    """Within this block the shapes of tensors are checked, but their values are trusted."""
    token = _trusted.set(True)
    try:
        yield
    finally:
        _trusted.reset(token)


def _reads_values() -> bool:
    return not torch.compiler.is_compiling() and not _trusted.get()


def in_pairs(index: Tensor) -> bool:
    """Whether samples come in pairs 2j, 2j+1, …; assumed to be so if values are not read."""
    if len(index) % 2 or not _reads_values():
        return len(index) % 2 == 0
    first, second = index.view(-1, 2).unbind(1)
    return bool(((first % 2 == 0) & (second == first + 1)).all())


def positive(x: float | Tensor, what: str) -> None:
    """`x` (every element of it) must be a finite number above 0."""
    if isinstance(x, Tensor):
        if not _reads_values():
            return
        bad = x[~((x > 0) & x.isfinite())]
        if bad.numel() == 0:
            return
        x = bad.flatten()[0].item()
    if not 0 < x < float("inf"):
        fail(f"{what} is not positive", got=x, allowed="a finite number > 0", do="pass a positive value")


def times(t: Tensor, what: str = "time t") -> None:
    """Every element of `t` must lie in [0, 1]."""
    _unit_interval(t, what, do="use times from 0 (data) to 1 (all masked)")


def ordered(s: Tensor, t: Tensor) -> None:
    """s ≤ t must hold: s is the time closer to the data."""
    if _reads_values():
        late = s > t
        if late.any():
            fail(
                "times are in the wrong order",
                got=f"s = {s[late].flatten()[0].item()}, t = {t[late].flatten()[0].item()}",
                allowed="s <= t",
                do="pass the time closer to the data first",
            )


def probabilities(p: Tensor, what: str) -> None:
    """Every element of `p` must lie in [0, 1]."""
    _unit_interval(p, what, do="pass a probability")


def _unit_interval(x: Tensor, what: str, *, do: str) -> None:
    require(
        x.is_floating_point(),
        f"{what} is not a floating-point tensor",
        got=x.dtype,
        allowed="float32 or float64",
        do="convert it with .double()",
    )
    if _reads_values():
        bad = x[~((x >= 0) & (x <= 1))]
        if bad.numel():
            fail(f"{what} is outside [0, 1]", got=bad.flatten()[0].item(), allowed="0 to 1", do=do)


def tokens(x: Tensor, vocab_size: int, *, allow_mask: bool = False) -> None:
    """Token ids [B, ...] must be integers below `vocab_size`; in a masked state `vocab_size` is the mask."""
    require(
        x.ndim >= 2,
        "tokens are not a batch of sequences",
        got=f"shape {tuple(x.shape)}",
        allowed="[batch, positions ...]",
        do="add a batch dimension with x[None]",
    )
    require(
        x.dtype in (torch.int64, torch.int32),  # smaller types cannot hold every mask id
        "token ids have the wrong type",
        got=x.dtype,
        allowed="int64 or int32",
        do="convert them with x.long()",
    )
    if not _reads_values():
        return
    largest = vocab_size if allow_mask else vocab_size - 1
    bad = x[(x < 0) | (x > largest)]
    if bad.numel():
        fail(
            "a token id is outside the vocabulary",
            got=bad.flatten()[0].item(),
            allowed=f"0..{largest}" + (f" ({vocab_size} is the mask)" if allow_mask else ""),
            do="check the vocabulary that the data was encoded with",
        )


def k_range(k: Tensor, n: Tensor) -> None:
    """0 ≤ k ≤ n must hold in every row: no more tokens can be masked than there are."""
    require(
        k.shape == n.shape,
        "k has the wrong shape",
        got=tuple(k.shape),
        allowed=f"{tuple(n.shape)}, one k per sequence",
        do="pass a vector with one k per sequence",
    )
    if _reads_values():
        bad = ((k < 0) | (k > n)).nonzero()
        if bad.numel():
            first = int(bad[0])
            fail(
                "the number of masked tokens k is out of range",
                got=k[first].item(),
                allowed=f"0..{n[first].item()} (the valid tokens of the sequence)",
                do="draw k from 1..N",
            )


def sample_numbers(index: Tensor, largest: int) -> None:
    """The sample numbers of a batch must be a vector of integers in 0..largest."""
    require(
        index.ndim == 1 and not index.is_floating_point() and index.dtype != torch.bool,
        "sample numbers have the wrong form",
        got=f"{index.dtype} of shape {tuple(index.shape)}",
        allowed="a vector of integers",
        do="pass torch.arange(B), or a count",
    )
    if _reads_values() and index.numel():
        low, high = int(index.min()), int(index.max())
        require(
            low >= 0 and high <= largest,
            "a sample number is out of range",
            got=low if low < 0 else high,
            allowed=f"0..{largest}",
            do="count samples from 0, and use step for repeated draws",
        )


def one_each(count: int, x: Tensor, what: str) -> None:
    """There must be one of `what` for each sequence of x."""
    require(
        count == len(x),
        f"the number of {what} does not match the batch",
        got=f"{count} for {len(x)} sequences",
        allowed="one for each sequence",
        do="create them for this batch",
    )


def validity(valid: Tensor, x: Tensor) -> None:
    """A validity mask must be bool and have one entry per position."""
    require(
        valid.dtype == torch.bool and valid.shape == x.shape,
        "the validity mask has the wrong form",
        got=f"{valid.dtype} of shape {tuple(valid.shape)}",
        allowed=f"bool of shape {tuple(x.shape)}",
        do="convert it with .bool()",
    )


def times_of(t: Tensor, x: Tensor) -> None:
    """There must be one time for each sequence."""
    require(
        t.shape == (len(x),),
        "the times do not match the batch",
        got=f"shape {tuple(t.shape)}",
        allowed=f"({len(x)},), one per sequence",
        do="expand them with t.expand(B)",
    )


def same_shape(x: Tensor, like: Tensor, what: str) -> None:
    """`x` must have the shape of the tokens it belongs to."""
    require(
        x.shape == like.shape,
        f"{what} has the wrong shape",
        got=tuple(x.shape),
        allowed=f"{tuple(like.shape)}",
        do="pass one entry per position",
    )


def logits(x: Tensor, rows: int, vocab_size: int) -> None:
    """`x` must be [rows, V]: one row per masked position, one column per real token, none for the mask."""
    require(
        x.ndim == 2 and x.shape[0] == rows and x.shape[1] == vocab_size,
        "logits have the wrong shape",
        got=tuple(x.shape),
        allowed=f"({rows}, {vocab_size}) = (masked positions, vocabulary without the mask)",
        do="select the masked rows with logits[mask] and drop the mask column",
    )


def not_nan(values: Tensor, what: str) -> None:
    """What is computed from finite logits is never NaN, so a NaN means that the logits are at fault."""
    if _reads_values():
        bad = int(values.isnan().sum())
        require(
            bad == 0,
            f"the {what} are NaN",
            got=f"{bad} of {values.numel()} rows",
            allowed="no NaN",
            do="look for NaN or +inf in the network's output",
        )
