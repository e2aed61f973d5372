"""Triton kernels for memory-bound operations, each a single pass where the compiler would make several.

Imported by `fused`, which has the same formulas in plain PyTorch and is what the networks call. Values are read and
written in their own dtype and computed in float32.
"""

from .group_norm import norm_silu, norm_silu_backward, slab
from .product import product_squared_relu, product_squared_relu_backward
from .rotation import norm_rotate, norm_rotate_backward

__all__ = [
    "norm_rotate",
    "norm_rotate_backward",
    "norm_silu",
    "norm_silu_backward",
    "product_squared_relu",
    "product_squared_relu_backward",
    "slab",
]
