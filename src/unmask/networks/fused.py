"""Steps that touch much memory and compute little, written so that each is one pass over it.

Every function is plain PyTorch, which says what is computed, with a Triton kernel behind it (`kernels`) where there
is a GPU to run it.
"""

import importlib.util
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

HAVE_TRITON = importlib.util.find_spec("triton") is not None
if HAVE_TRITON:
    from . import kernels


def has_kernel(x: Tensor) -> bool:
    """Whether there are kernels for where x is."""
    return HAVE_TRITON and x.is_cuda


_EPS_ROTATE = 1e-6


def norm_rotate(qkv: Tensor, scales: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values [B, N, H, D/H] from qkv [B, N, 3, H, D/H]: queries and keys are divided by their
    root mean square, scaled by `scales` [2, D/H] and rotated by their place (Su et al., 2021).
    """
    if has_kernel(qkv):
        q, k, v = _NormRotate.apply(qkv, scales, cos, sin)  # type: ignore[no-untyped-call]
        return q, k, v
    q, k, v = qkv.unbind(2)
    width = (qkv.shape[-1],)
    q, k = (
        rotate(F.rms_norm(x.float(), width, scale, eps=_EPS_ROTATE), cos, sin).to(qkv.dtype)
        for x, scale in zip((q, k), scales.float(), strict=True)
    )
    return q, k, v


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate each pair (x_i, x_{i+d/2}) by its angle."""
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


class _NormRotate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, qkv: Tensor, scales: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, ...]:
        ctx.save_for_backward(qkv, scales, cos, sin)
        q, k = kernels.norm_rotate(qkv, scales, cos, sin, _EPS_ROTATE).unbind(2)
        return q, k, qkv[:, :, 2]

    @staticmethod
    def backward(ctx: Any, dq: Tensor, dk: Tensor, dv: Tensor) -> tuple[Tensor | None, ...]:
        qkv, scales, cos, sin = ctx.saved_tensors
        dqkv, dscales = kernels.norm_rotate_backward(dq, dk, dv, qkv, scales, cos, sin, _EPS_ROTATE)
        return dqkv, dscales.sum(0), None, None


def squared_relu(x: Tensor) -> Tensor:
    """relu(x)². Its derivative 2 relu(x) is twice the root of the result, so x need not be kept: where a matrix
    product comes before, that one can write the result at once.
    """
    y: Tensor = _SquaredRelu.apply(x)  # type: ignore[no-untyped-call]
    return y


class _SquaredRelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        y = F.relu(x).square()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> Tensor:
        (y,) = ctx.saved_tensors
        return 2 * dy * y.sqrt()


def norm_silu(
    x: Tensor,
    left: Tensor | None,
    shift: Tensor | None,
    weight: Tensor,
    bias: Tensor,
    keep: Tensor | None,
    groups: int,
    eps: float,
) -> Tensor:
    """silu(group_norm([x, left] + shift) · weight + bias) · keep of images [B, H, W, C], channels last.

    shift and keep are [B, C]; the statistics are taken in float32.
    """
    if _slabs_fit(x, left, groups):
        y: Tensor = _NormSilu.apply(x, left, shift, weight, bias, keep, groups, eps)  # type: ignore[no-untyped-call]
        return y
    both = x if left is None else torch.cat([x, left], dim=-1)
    wide = both.float() if shift is None else both + shift[:, None, None]
    normed = F.group_norm(wide.permute(0, 3, 1, 2).float(), groups, weight.float(), bias.float(), eps)
    y = F.silu(normed.permute(0, 2, 3, 1))
    return (y if keep is None else y * keep[:, None, None]).to(x.dtype)


def _slabs_fit(x: Tensor, left: Tensor | None, groups: int) -> bool:
    """Whether whole groups of both images make up the slabs of channels that the kernel works on."""
    if not has_kernel(x):
        return False
    widths = [x.shape[-1]] + ([] if left is None else [left.shape[-1]])
    group = sum(widths) // groups
    return group & (group - 1) == 0 and all(width % kernels.slab(group) == 0 for width in widths)


class _NormSilu(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        left: Tensor | None,
        shift: Tensor | None,
        weight: Tensor,
        bias: Tensor,
        keep: Tensor | None,
        groups: int,
        eps: float,
    ) -> Tensor:
        y, means, scales = kernels.norm_silu(x, left, shift, weight, bias, keep, groups, eps)
        ctx.save_for_backward(x, left, shift, weight, bias, keep, means, scales)
        ctx.groups = groups
        return y

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        x, left, shift, weight, bias, keep, means, scales = ctx.saved_tensors
        dx, dleft, dshift, dweight, dbias = kernels.norm_silu_backward(
            dy, x, left, shift, weight, bias, keep, means, scales, ctx.groups
        )
        shifts = None if shift is None else dshift
        return dx, None if left is None else dleft, shifts, dweight.sum(0), dbias.sum(0), None, None, None
