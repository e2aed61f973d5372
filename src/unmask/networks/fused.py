"""Memory-bound operations, each written as a single pass over memory.

Every function is defined by its plain PyTorch code, and uses a Triton kernel (`kernels`) instead if there is a GPU to
run it.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..core.device import HAVE_TRITON
from ..core.numeric import softmax_dtype

if HAVE_TRITON:
    from . import kernels


def has_kernel(x: Tensor) -> bool:
    """Whether there are kernels for the device of x."""
    return HAVE_TRITON and x.is_cuda


_EPS = 1e-6


def rms_norm(x: Tensor) -> Tensor:
    """y = x / rms(x) over the last axis, computed in float32. The backward pass needs only y, which the matrix product
    after it keeps anyway: with r = 1/rms(x), dx = r (dy − y · mean(y · dy)).
    """
    # the library function is faster where memory is no concern; and in float32, where nothing is converted, torch 2.11
    # compiles our backward pass incorrectly
    if not x.is_cuda or x.dtype == softmax_dtype(x):
        return F.rms_norm(x, x.shape[-1:], eps=_EPS)
    y: Tensor = _RmsNorm.apply(x)  # type: ignore[no-untyped-call]
    return y


class _RmsNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        wide = x.to(softmax_dtype(x))
        r = torch.rsqrt(wide.square().mean(-1, keepdim=True) + _EPS)
        y = (wide * r).to(x.dtype)
        ctx.save_for_backward(y, r)
        return y

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> Tensor:
        y, r = ctx.saved_tensors
        y, wide = y.to(r.dtype), dy.to(r.dtype)
        dx: Tensor = r * (wide - y * (y * wide).mean(-1, keepdim=True))
        return dx.to(dy.dtype)


def norm_rotate(qkv: Tensor, scales: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values [B, N, H, D/H] from qkv [B, N, 3, H, D/H]: queries and keys are divided by their
    root mean square, scaled by `scales` [2, D/H] and rotated by their position (Su et al., 2021).
    """
    if has_kernel(qkv):
        q, k, v = _NormRotate.apply(qkv, scales, cos, sin)  # type: ignore[no-untyped-call]
        return q, k, v
    q, k, v = qkv.unbind(2)
    wide = softmax_dtype(qkv)
    q, k = (
        rotate(F.rms_norm(x.to(wide), x.shape[-1:], scale, eps=_EPS), cos, sin).to(qkv.dtype)
        for x, scale in zip((q, k), scales.to(wide), strict=True)
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
        q, k = kernels.norm_rotate(qkv, scales, cos, sin, _EPS).unbind(2)
        return q, k, qkv[:, :, 2]

    @staticmethod
    def backward(ctx: Any, dq: Tensor, dk: Tensor, dv: Tensor) -> tuple[Tensor | None, ...]:
        qkv, scales, cos, sin = ctx.saved_tensors
        dqkv, dscales = kernels.norm_rotate_backward(dq, dk, dv, qkv, scales, cos, sin, _EPS)
        return dqkv, dscales.sum(0), None, None


def squared_relu_mlp(x: Tensor, into: Tensor, out: Tensor) -> Tensor:
    """relu(x intoᵀ)² outᵀ. The derivative of y = relu(·)² is 2 √y, so only y is kept, which the matrix product writes
    directly.
    """
    if has_product(x):
        kind = torch.get_autocast_dtype(x.device.type)
        y: Tensor = _SquaredReluMlp.apply(x.to(kind), into.to(kind), out.to(kind))  # type: ignore[no-untyped-call]
        return y
    return F.linear(F.relu(F.linear(x, into)).square(), out)


def has_product(x: Tensor) -> bool:
    """Whether the kernel for the matrix product applies: bf16 on a GPU with tile-load hardware (Hopper and later)."""
    return (
        has_kernel(x)
        and torch.is_autocast_enabled(x.device.type)
        and torch.get_autocast_dtype(x.device.type) == torch.bfloat16
        and x.shape[-1] % 8 == 0
        and torch.cuda.get_device_capability(x.device) >= (9, 0)
    )


class _SquaredReluMlp(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, into: Tensor, out: Tensor) -> Tensor:
        rows = x.flatten(0, -2)
        y = kernels.product_squared_relu(rows, into)
        ctx.save_for_backward(rows, y, into, out)
        result: Tensor = (y @ out.t()).view(*x.shape[:-1], -1)
        return result

    @staticmethod
    def backward(ctx: Any, d: Tensor) -> tuple[Tensor, ...]:
        rows, y, into, out = ctx.saved_tensors
        d_out = d.flatten(0, -2)
        d_y = kernels.product_squared_relu_backward(d_out, out.t().contiguous(), y)
        return (d_y @ into).view(*d.shape[:-1], -1), d_y.t() @ rows, d_out.t() @ y


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
    """silu(group_norm([x, left] + shift) · weight + bias) · keep for images [B, H, W, C], channels last.

    shift and keep are [B, C]; statistics are computed in float32.
    """
    if _slabs_fit(x, left, groups):
        y: Tensor = _NormSilu.apply(x, left, shift, weight, bias, keep, groups, eps)  # type: ignore[no-untyped-call]
        return y
    both = (x if left is None else torch.cat([x, left], dim=-1)).to(softmax_dtype(x))
    if shift is not None:
        both = both + shift[:, None, None]
    normed = F.group_norm(both.permute(0, 3, 1, 2), groups, weight.to(both.dtype), bias.to(both.dtype), eps)
    y = F.silu(normed.permute(0, 2, 3, 1))
    return (y if keep is None else y * keep[:, None, None]).to(x.dtype)


def _slabs_fit(x: Tensor, left: Tensor | None, groups: int) -> bool:
    """Whether the slabs of channels that the kernel works on consist of whole groups in both inputs."""
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
        y: Tensor
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
