"""Time and class as one conditioning vector per sample."""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..mistakes import fail
from .network import check_sizes, linear

_FREQUENCIES = 128


@dataclass(frozen=True)
class Conditioning:
    """What the network is conditioned on besides the tokens."""

    time: bool = False
    """Condition on the time t. Scalar schedules do not need it; GenMD4 does."""
    classes: int = 0
    """Number of classes; 0 for none. One extra embedding stands for "no label"."""
    condition_width: int = 0
    """Width of the embedding of time and class; 0 for the network's width. 128 keeps adaLN small in a large network."""

    def __post_init__(self) -> None:
        check_sizes(self, "classes", "condition_width", least=0)

    @property
    def any(self) -> bool:
        """Whether there is any conditioning."""
        return self.time or self.classes > 0


class Condition(nn.Module):
    """(t, label) → [B, width]: the sum of the configured parts."""

    def __init__(self, config: Conditioning, width: int):
        super().__init__()
        self.config = config
        if config.time:
            self.time_in, self.time_out = linear(2 * _FREQUENCIES, width, bias=True), linear(width, width, bias=True)
        if config.classes:
            self.label = nn.Embedding(config.classes + 1, width)
            nn.init.normal_(self.label.weight, std=0.02)

    def forward(self, t: Tensor | None, label: Tensor | None, batch: int) -> Tensor:
        parts = []
        if self.config.time:
            if t is None:
                fail("the network needs the time", got="no t", allowed="t [B]", do="pass the time of x_t")
            parts.append(self.time_out(F.silu(self.time_in(time_features(t).to(self.time_in.weight.dtype)))))
        if self.config.classes:
            if label is None:
                label = torch.full((batch,), self.config.classes, device=self.label.weight.device)
            parts.append(self.label(label))
        return torch.stack(parts).sum(0)


def time_features(t: Tensor) -> Tensor:
    """cos and sin of 1000·t at geometrically spaced frequencies, [B, 2F] float32."""
    exponent = torch.arange(_FREQUENCIES, device=t.device, dtype=torch.float32) / _FREQUENCIES
    angle = 1000 * t.float()[:, None] * (-math.log(10_000) * exponent).exp()
    return torch.cat([angle.cos(), angle.sin()], dim=1)


def check_label(label: Tensor | None, classes: int) -> None:
    """Only networks with classes accept labels."""
    if label is not None and not classes:
        fail("the network has no classes", got="labels", allowed="none", do="train it with labels, or omit them")
