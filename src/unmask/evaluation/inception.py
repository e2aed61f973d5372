"""The Inception network whose features define FID (Szegedy et al., 2015; Heusel et al., 2017).

It is TensorFlow's network of 2015, not the one of today's libraries: its average pooling excludes the padding, its last
block uses max pooling, and images are resized as in TensorFlow 1. Parameters are named as in the file in which these
weights are distributed for PyTorch (`WEIGHTS`).
"""

from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..mistakes import fail, first_line, require

WEIGHTS = "https://github.com/toshas/torch-fidelity/releases/download/v0.2.0/weights-inception-2015-12-05-6726825d.pth"
_SIDE, _CLASSES = 299, 1008


Size = int | tuple[int, int]


class _Conv(nn.Module):
    """Convolution, batch norm, ReLU."""

    def __init__(self, width_in: int, width_out: int, size: Size = 1, stride: int = 1, pad: bool = True):
        super().__init__()
        height, width = (size, size) if isinstance(size, int) else size
        padding = (height // 2, width // 2) if pad else (0, 0)
        self.conv = nn.Conv2d(width_in, width_out, (height, width), stride, padding, bias=False)
        self.bn = nn.BatchNorm2d(width_out, eps=0.001)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.bn(self.conv(x)))


def _mean(x: Tensor) -> Tensor:
    return F.avg_pool2d(x, 3, stride=1, padding=1, count_include_pad=False)


def _largest(x: Tensor) -> Tensor:
    return F.max_pool2d(x, 3, stride=1, padding=1)


def _halved(x: Tensor) -> Tensor:
    return F.max_pool2d(x, 3, stride=2)


Layer = tuple[Any, ...]
"""(name, width out, size, stride, padded), the last of which may be missing."""


class _Mixed(nn.Module):
    """Branches side by side, their channels joined. The last part of a branch may be two layers, joined as well."""

    def __init__(self, width: int, branches: list[list[Layer | list[Layer]]], pool: Any, pooled: int | None = None):
        super().__init__()
        self._branches: list[list[list[str]]] = []
        for branch in branches:
            width_in, names = width, []
            for step in branch:
                layers = step if isinstance(step, list) else [step]
                for name, width_out, *rest in layers:
                    setattr(self, name, _Conv(width_in, width_out, *rest))
                names.append([layer[0] for layer in layers])
                width_in = sum(layer[1] for layer in layers)
            self._branches.append(names)
        self._pool, self.branch_pool = pool, nn.Identity() if pooled is None else _Conv(width, pooled)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([*(self._along(branch, x) for branch in self._branches), self.branch_pool(self._pool(x))], 1)

    def _along(self, branch: list[list[str]], x: Tensor) -> Tensor:
        for names in branch:
            x = torch.cat([getattr(self, name)(x) for name in names], 1)
        return x


def _a(width: int, pooled: int) -> _Mixed:
    five = [("branch5x5_1", 48), ("branch5x5_2", 64, 5)]
    double = [("branch3x3dbl_1", 64), ("branch3x3dbl_2", 96, 3), ("branch3x3dbl_3", 96, 3)]
    return _Mixed(width, [[("branch1x1", 64)], [*five], [*double]], _mean, pooled)


def _b(width: int) -> _Mixed:
    double = [("branch3x3dbl_1", 64), ("branch3x3dbl_2", 96, 3), ("branch3x3dbl_3", 96, 3, 2, False)]
    return _Mixed(width, [[("branch3x3", 384, 3, 2, False)], [*double]], _halved)


def _c(width: int, inner: int) -> _Mixed:
    seven = [("branch7x7_1", inner), ("branch7x7_2", inner, (1, 7)), ("branch7x7_3", 192, (7, 1))]
    double = [("branch7x7dbl_1", inner), ("branch7x7dbl_2", inner, (7, 1)), ("branch7x7dbl_3", inner, (1, 7))]
    double += [("branch7x7dbl_4", inner, (7, 1)), ("branch7x7dbl_5", 192, (1, 7))]
    return _Mixed(width, [[("branch1x1", 192)], [*seven], [*double]], _mean, 192)


def _d(width: int) -> _Mixed:
    three = [("branch3x3_1", 192), ("branch3x3_2", 320, 3, 2, False)]
    seven = [("branch7x7x3_1", 192), ("branch7x7x3_2", 192, (1, 7)), ("branch7x7x3_3", 192, (7, 1))]
    return _Mixed(width, [[*three], [*seven, ("branch7x7x3_4", 192, 3, 2, False)]], _halved)


def _e(width: int, pool: Any) -> _Mixed:
    three: list[Layer | list[Layer]] = [
        ("branch3x3_1", 384),
        [("branch3x3_2a", 384, (1, 3)), ("branch3x3_2b", 384, (3, 1))],
    ]
    double = [("branch3x3dbl_1", 448), ("branch3x3dbl_2", 384, 3)]
    both = [("branch3x3dbl_3a", 384, (1, 3)), ("branch3x3dbl_3b", 384, (3, 1))]
    return _Mixed(width, [[("branch1x1", 320)], [*three], [*double, both]], pool, 192)


class Inception(nn.Sequential):
    """Images [B, 3, H, W] of bytes → features [B, 2048]."""

    def __init__(self) -> None:
        parts: dict[str, nn.Module] = {
            "Conv2d_1a_3x3": _Conv(3, 32, 3, 2, False),
            "Conv2d_2a_3x3": _Conv(32, 32, 3, 1, False),
            "Conv2d_2b_3x3": _Conv(32, 64, 3),
            "pool_1": nn.MaxPool2d(3, 2),
            "Conv2d_3b_1x1": _Conv(64, 80),
            "Conv2d_4a_3x3": _Conv(80, 192, 3, 1, False),
            "pool_2": nn.MaxPool2d(3, 2),
            "Mixed_5b": _a(192, 32),
            "Mixed_5c": _a(256, 64),
            "Mixed_5d": _a(288, 64),
            "Mixed_6a": _b(288),
            "Mixed_6b": _c(768, 128),
            "Mixed_6c": _c(768, 160),
            "Mixed_6d": _c(768, 160),
            "Mixed_6e": _c(768, 192),
            "Mixed_7a": _d(768),
            "Mixed_7b": _e(1280, _mean),
            "Mixed_7c": _e(2048, _largest),
        }
        super().__init__()
        for name, part in parts.items():
            self.add_module(name, part)

    @torch.no_grad()
    def forward(self, images: Tensor) -> Tensor:
        x = (legacy_resize(images.float(), _SIDE) - 128) / 128
        for part in self.children():
            x = part(x)
        return x.mean((2, 3))


def legacy_resize(x: Tensor, side: int) -> Tensor:
    """TensorFlow 1's bilinear resizing of [B, C, H, W]: pixel i of the result is taken at i · (old/new) of the image,
    without the half-pixel shift that later versions make.
    """
    for axis in (2, 3):
        size = x.shape[axis]
        place = torch.arange(side, dtype=torch.float32, device=x.device) * (size / side)
        low = place.floor().long()
        weight = (place - low).view([-1, 1] if axis == 2 else [1, -1])
        first, second = x.index_select(axis, low), x.index_select(axis, (low + 1).clamp(max=size - 1))
        x = first + (second - first) * weight
    return x


def load_inception(path: Path) -> Inception:
    """Load the network with weights from `WEIGHTS`, or from a file in the same format."""
    require(path.is_file(), "no Inception weights", got=path, allowed="a file", do=f"download {WEIGHTS}")
    try:
        weights = torch.load(path, map_location="cpu", weights_only=True)
        network = Inception()
        network.load_state_dict({name: x for name, x in weights.items() if not name.startswith("fc.")})
    except Exception as problem:  # pickle alone raises half a dozen kinds
        fail(
            f"{path} does not hold Inception weights", got=first_line(problem), allowed=WEIGHTS, do="download it again"
        )
    return network.eval().requires_grad_(False)
