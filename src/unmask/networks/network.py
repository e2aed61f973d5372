"""The interface of every network, and small shared building blocks."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from ..core import Streams
from ..mistakes import require

Dropout = tuple[Tensor, ...]
"""Factors for the channels of residual branches, 0 where a channel is dropped; empty for no dropout."""


class Halves(Protocol):
    """The two halves of a network, features and head, however they are computed."""

    def features(self, x_t: Tensor, t: Tensor, label: Tensor | None = None, /) -> Tensor:
        """One vector per position."""

    def head(self, features: Tensor, /) -> Tensor:
        """Logits from features."""


class Network(nn.Module, ABC):
    """Predicts x_0 from x_t: tokens [B, ...] → logits [B, ..., V].

    A network is a deterministic function of its inputs. Dropout is drawn beforehand, from random numbers that are a
    function of (seed, step, sample): a resumed run drops the same channels, and the compiled network has no randomness.
    """

    vocab_size: int
    mixed_bytes: float = 2.0
    """Measured bytes of device memory, in mixed precision, per value that autograd would keep in float32 (`cost`)."""
    classes: int = 0
    """Number of classes; label `classes` means "no label"."""
    sees_time: bool = False
    """Whether its predictions depend on t."""
    causal: bool = False
    """Whether it predicts each token from the preceding ones only."""
    block: int = 0
    """Size of the blocks that it reads one after another; 0 if it does not read in blocks."""
    fixed_shape: bool = True
    """Whether it accepts rows of one shape only (images, molecules) rather than sequences of any length."""
    ragged: bool = False
    """Whether `features` accepts `lengths`, for rows of different lengths."""

    @abstractmethod
    def parts(self) -> list[nn.Module]:
        """The parts that do nearly all of the work, in order; they are compiled, sharded and recomputed one by one."""

    def compile_parts(self, **options: Any) -> None:
        """Compile part by part (`torch.compile`): parts of a kind share one graph, so it takes seconds at any depth.

        Only the computation of a part is compiled; its hooks, such as those that gather sharded weights, are not.
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
        """Draw the dropout of one pass."""
        del streams
        return ()

    def forward(self, x_t: Tensor, t: Tensor | None = None, label: Tensor | None = None) -> Tensor:
        """Logits at every position, a large tensor: [B, ..., V]."""
        logits: Tensor = self.head(self.features(x_t, t, label))
        return logits


def compiled(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """Compile a function as one graph, for constant shapes unless `dynamic` is set."""
    if "backend" not in options:  # the compiler would mistake [B, H, W, C] for [B, C, H, W] and move the channels
        options["options"] = {"layout_optimization": False}
    return torch.compile(function, fullgraph=True, **{"dynamic": False} | options)


class HiddenLayer(nn.Module):
    """A layer whose matrices map hidden vectors to hidden vectors, where Muon applies: attention, MLP, convolutions.

    Embeddings, output maps and conditioning are not such layers.
    """

    spared: ClassVar[frozenset[str]] = frozenset()
    """Names of its maps that Muon does not apply to."""

    stacked: ClassVar[dict[str, int]] = {}
    """Maps that consist of several stacked matrices, with their number, by name (queries, keys and values: 3)."""


def check_sizes(config: Any, *names: str, least: int = 1) -> None:
    """Check that these fields of a configuration are integers >= `least`."""
    for name in names:
        value = getattr(config, name)
        good = isinstance(value, int) and value >= least
        require(good, f"{name} is out of range", got=value, allowed=f"an integer >= {least}", do="raise it")


def linear(width_in: int, width_out: int, *, bias: bool = False, zero: bool = False) -> nn.Linear:
    """A linear layer with normal(0, 1/√in) weights, or zeros for a branch that initially contributes nothing."""
    layer = nn.Linear(width_in, width_out, bias=bias)
    if zero:
        nn.init.zeros_(layer.weight)
    else:
        nn.init.normal_(layer.weight, std=width_in**-0.5)
    if bias:
        nn.init.zeros_(layer.bias)
    return layer


def output_map(width: int, vocab_size: int) -> nn.Linear:
    """Features → logits, initialised to zero. Outputs beyond the vocabulary are cut off and never trained."""
    return linear(width, rounded_up(vocab_size), zero=True)


def rounded_up(rows: int) -> int:
    """Round up to a multiple of 64, which is faster on matrix units."""
    return -(-rows // 64) * 64


def draw_channels(rate: float, branches: int, width: int, streams: Streams) -> Tensor | None:
    """Channel-wise dropout: factors [branches, B, width] that drop channels of a sample in each residual branch."""
    if rate == 0:
        return None
    kept = streams.fork("dropout").uniform(branches, width) >= rate
    return (kept.float() / (1 - rate)).transpose(0, 1).contiguous()


def per_branch(dropout: Dropout, which: int, branches: int) -> list[Tensor | None]:
    """The factors [B, width] of each branch."""
    return list(dropout[which].unbind(0)) if dropout else [None] * branches


def in_compute_dtype(x: Tensor) -> Tensor:
    """Convert the start of a residual stream to the dtype that autocast computes in."""
    kind = x.device.type
    if kind == "meta" or not torch.is_autocast_enabled(kind):
        return x
    return x.to(torch.get_autocast_dtype(kind))


def run_block(block: nn.Module, recompute: bool, *inputs: Any) -> Any:
    """Run a block and keep its activations or, if `recompute`, compute them again in the backward pass."""
    if recompute and torch.is_grad_enabled():
        return checkpoint(block, *inputs, use_reentrant=False, preserve_rng_state=False)
    return block(*inputs)
