"""A matrix product fused with squared ReLU, or with the backward pass of squared ReLU."""

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

_M, _N, _K = 128, 256, 64
"""Size of a tile of the product, and of the slices of the inner dimension multiplied at a time."""
_TOGETHER = 8
"""Rows of tiles processed together, so that their operands stay in the cache."""


@triton.jit
def _product(
    a, b, y, c, rows, columns, inner, BACKWARD: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr,
    TOGETHER: tl.constexpr, PROGRAMS: tl.constexpr,
):  # fmt: skip
    """c = f(a bᵀ), tile by tile; f is relu² or, in the backward pass, multiplication by its derivative 2 √y."""
    down, across = tl.cdiv(rows, M), tl.cdiv(columns, N)
    for tile in tl.range(tl.program_id(0), down * across, PROGRAMS, flatten=True):
        band, place = tile // (TOGETHER * across), tile % (TOGETHER * across)
        height = tl.minimum(down - band * TOGETHER, TOGETHER)
        row, column = (band * TOGETHER + place % height) * M, place // height * N
        sums = tl.zeros([M, N], tl.float32)
        for k in range(0, inner, K):
            sums = tl.dot(a.load([row, k]), b.load([column, k]).T, sums)
        left, right = tl.split(tl.permute(tl.reshape(sums, [M, 2, N // 2]), [0, 2, 1]))
        for half in tl.static_range(2):  # one half at a time takes less shared memory
            part = left if half == 0 else right
            at = column + half * (N // 2)
            if BACKWARD:
                part = 2 * part * tl.sqrt(y.load([row, at]).to(tl.float32))
            else:
                part = tl.maximum(part, 0.0)
                part = part * part
            c.store([row, at], part.to(c.dtype))


def _run_product(a: Tensor, b: Tensor, y: Tensor | None) -> Tensor:
    a, b = a.contiguous(), b.contiguous()
    c = a.new_empty(len(a), len(b))
    halves = [TensorDescriptor.from_tensor(x.contiguous(), [_M, _N // 2]) for x in (c if y is None else y, c)]
    operands = TensorDescriptor.from_tensor(a, [_M, _K]), TensorDescriptor.from_tensor(b, [_N, _K])
    tiles = triton.cdiv(len(a), _M) * triton.cdiv(len(b), _N)
    programs = min(tiles, torch.cuda.get_device_properties(a.device).multi_processor_count if a.is_cuda else 1)
    sizes = (_M, _N, _K, _TOGETHER, programs)
    _product[(programs,)](
        *operands, *halves, len(a), len(b), a.shape[1], y is not None, *sizes, num_warps=8, num_stages=3
    )
    return c


@torch.library.custom_op("unmask::product_squared_relu", mutates_args=())
def product_squared_relu(a: Tensor, b: Tensor) -> Tensor:
    """relu(a bᵀ)² [M, N] for a [M, K] and b [N, K]."""
    return _run_product(a, b, None)


@product_squared_relu.register_fake
def _(a: Tensor, b: Tensor) -> Tensor:
    return a.new_empty(len(a), len(b))


@torch.library.custom_op("unmask::product_squared_relu_backward", mutates_args=())
def product_squared_relu_backward(a: Tensor, b: Tensor, y: Tensor) -> Tensor:
    """(a bᵀ) · 2 √y: the gradient of the input of y = relu(·)², where a bᵀ is the gradient of y."""
    return _run_product(a, b, y)


@product_squared_relu_backward.register_fake
def _(a: Tensor, b: Tensor, y: Tensor) -> Tensor:
    del y
    return a.new_empty(len(a), len(b))
