"""What every network offers, and the small parts they share."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from ..core import Streams
from ..mistakes import require

Dropout = tuple[Tensor, ...]
"""Factors for the channels of residual branches, 0 where one is dropped; empty: none is."""


class Halves(Protocol):
    """Body and head of a network, however they are computed."""

    def features(self, x_t: Tensor, t: Tensor, label: Tensor | None = None, /) -> Tensor:
        """One vector per position."""

    def head(self, features: Tensor, /) -> Tensor:
        """Logits from features."""


class Network(nn.Module, ABC):
    """Predicts x_0 from x_t: tokens [B, ...] → logits [B, ..., V].

    A network is a function of its inputs. What it drops in training is drawn before, from numbers that are a function
    of (seed, step, sample): a resumed run drops the same, and the compiled network holds no randomness.
    """

    vocab_size: int
    mixed_bytes: float = 2.0
    """Bytes of device memory per number that autograd keeps in float32 (`cost`), measured in mixed precision."""
    classes: int = 0
    """The number of classes it knows; label `classes` means "no label"."""
    sees_time: bool = False
    """Whether its predictions depend on t."""
    causal: bool = False
    """Whether it predicts each token from those before it alone."""
    block: int = 0
    """The size of the blocks that it reads one after the other; 0: it sees everything."""
    fixed_shape: bool = True
    """Whether it knows rows of one shape only (pictures, molecules) and not sequences of any length."""
    ragged: bool = False
    """Whether `features` takes `lengths`, of rows that differ."""

    @abstractmethod
    def parts(self) -> list[nn.Module]:
        """The parts that do nearly all of the work, in order: they are compiled, sharded and recomputed one by one."""

    def compile_parts(self, **options: Any) -> None:
        """Compile part by part (`torch.compile`): one graph for all of a kind, so it takes seconds at any depth.

        Only what a part computes: hooks on it, such as those that gather sharded weights, stay outside.
        """
        for part in self.parts():
            part.forward = compiled(part.forward, **options)

    @abstractmethod
    def features(
        self, x_t: Tensor, t: Tensor | None = None, label: Tensor | None = None, dropout: Dropout = ()
    ) -> Tensor:
        """One vector per position, [B, ..., D]. Label `classes` means "no label"."""

    @abstractmethod
    def head(self, features: Tensor) -> Tensor:
        """Logits [..., V] from features [..., D]."""

    @abstractmethod
    def head_parameters(self) -> list[nn.Parameter]:
        """The parameters that `head` uses."""

    def draw_dropout(self, streams: Streams) -> Dropout:
        """What to drop in one pass."""
        del streams
        return ()

    def forward(self, x_t: Tensor, t: Tensor | None = None, label: Tensor | None = None) -> Tensor:
        """Logits at every position. Mind the size: [B, ..., V]."""
        logits: Tensor = self.head(self.features(x_t, t, label))
        return logits


def compiled(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """The function as one graph, for constant shapes unless `dynamic` says otherwise."""
    if "backend" not in options:  # the compiler would take [B, H, W, C] for [B, C, H, W] and move the channels
        options["options"] = {"layout_optimization": False}
    return torch.compile(function, fullgraph=True, **{"dynamic": False} | options)


class HiddenLayer(nn.Module):
    """A layer whose matrices map hidden vectors to hidden vectors, where Muon applies: attention, MLP, convolutions.

    Embeddings, output maps and conditioning are not such layers.
    """

    spared: ClassVar[frozenset[str]] = frozenset()
    """Maps of it that are not, by name."""

    stacked: ClassVar[dict[str, int]] = {}
    """Maps that are several side by side, by name: queries, keys and values."""


def check_sizes(config: Any, *names: str, least: int = 1) -> None:
    """These fields of a configuration are whole numbers, at least so large."""
    for name in names:
        value = getattr(config, name)
        good = isinstance(value, int) and value >= least
        require(good, f"{name} is out of range", got=value, allowed=f"an integer >= {least}", do="raise it")


def linear(width_in: int, width_out: int, *, bias: bool = False, zero: bool = False) -> nn.Linear:
    """A linear layer with normal(0, 1/√in) weights, or zeros: a branch that starts with nothing to say."""
    layer = nn.Linear(width_in, width_out, bias=bias)
    if zero:
        nn.init.zeros_(layer.weight)
    else:
        nn.init.normal_(layer.weight, std=width_in**-0.5)
    if bias:
        nn.init.zeros_(layer.bias)
    return layer


def output_map(width: int, vocab_size: int) -> nn.Linear:
    """Features → logits, starting at zero. What lies beyond the vocabulary is cut off and never learns."""
    return linear(width, rounded_up(vocab_size), zero=True)


def rounded_up(rows: int) -> int:
    """To a multiple of 64, which matrix units like better."""
    return -(-rows // 64) * 64


def draw_channels(rate: float, branches: int, width: int, streams: Streams) -> Tensor | None:
    """Channel-wise dropout: for each residual branch, factors [branches, B, width] that drop a channel of a sample."""
    if rate == 0:
        return None
    kept = streams.fork("dropout").uniform(branches, width) >= rate
    return (kept.float() / (1 - rate)).transpose(0, 1).contiguous()


def per_branch(dropout: Dropout, which: int, branches: int) -> list[Tensor | None]:
    """The factors [B, width] of each branch."""
    return list(dropout[which].unbind(0)) if dropout else [None] * branches


def in_compute_dtype(x: Tensor) -> Tensor:
    """The start of a residual stream in the precision that autocast computes in."""
    kind = x.device.type
    if kind == "meta" or not torch.is_autocast_enabled(kind):
        return x
    return x.to(torch.get_autocast_dtype(kind))


def maybe_checkpoint(block: nn.Module, use: bool, *inputs: Any) -> Any:
    """Run a block, keeping its activations or recomputing them in the backward pass."""
    if use and torch.is_grad_enabled():
        return checkpoint(block, *inputs, use_reentrant=False, preserve_rng_state=False)
    return block(*inputs)
