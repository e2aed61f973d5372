"""Queries and keys normalised, scaled and rotated in one pass."""

import torch
import triton
import triton.language as tl
from torch import Tensor

_ROWS, _ROWS_BACKWARD = 64, 128
"""Number of (token, head) rows that a program works on."""


@triton.jit
def _norm_rotate(
    qkv, out, scales, cos, sin, rows, tokens, eps, HEADS: tl.constexpr, HALF: tl.constexpr, ROWS: tl.constexpr,
    LANES: tl.constexpr,
):  # fmt: skip
    which = tl.program_id(1)  # 0: queries, 1: keys
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)  # (token, head)
    lane = tl.arange(0, LANES)
    inside = (row < rows)[:, None] & (lane < HALF)[None, :]
    token = row // HEADS
    place = (which * HEADS + row % HEADS)[:, None] * (2 * HALF) + lane[None, :]
    at = qkv + token.to(tl.int64)[:, None] * (6 * HEADS * HALF) + place
    a = tl.load(at, inside, 0.0).to(tl.float32)
    b = tl.load(at + HALF, inside, 0.0).to(tl.float32)
    r = tl.rsqrt((tl.sum(a * a, 1) + tl.sum(b * b, 1)) / (2 * HALF) + eps)[:, None]
    scale = scales + which * (2 * HALF) + lane
    a = a * r * tl.load(scale, lane < HALF, 0.0)[None, :]
    b = b * r * tl.load(scale + HALF, lane < HALF, 0.0)[None, :]
    angle = (token % tokens)[:, None] * HALF + lane[None, :]
    c, s = tl.load(cos + angle, inside, 0.0), tl.load(sin + angle, inside, 0.0)
    at = out + token.to(tl.int64)[:, None] * (4 * HEADS * HALF) + place
    tl.store(at, (a * c - b * s).to(out.dtype.element_ty), inside)
    tl.store(at + HALF, (b * c + a * s).to(out.dtype.element_ty), inside)


@triton.jit
def _norm_rotate_backward(
    qkv, dq, dk, dv, dqkv, dscales, scales, cos, sin, rows, tokens, eps, HEADS: tl.constexpr, HALF: tl.constexpr,
    ROWS: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    which = tl.program_id(1)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    lane = tl.arange(0, LANES)
    inside = (row < rows)[:, None] & (lane < HALF)[None, :]
    token = row // HEADS
    at = (token.to(tl.int64) * (3 * HEADS) + which * HEADS + row % HEADS)[:, None] * (2 * HALF) + lane[None, :]
    given = row.to(tl.int64)[:, None] * (2 * HALF) + lane[None, :]
    if which == 2:
        da = tl.load(dv + given, inside, 0.0)
        db = tl.load(dv + given + HALF, inside, 0.0)
        tl.store(dqkv + at, da, inside)
        tl.store(dqkv + at + HALF, db, inside)
    else:
        source = dq if which == 0 else dk
        ga = tl.load(source + given, inside, 0.0).to(tl.float32)
        gb = tl.load(source + given + HALF, inside, 0.0).to(tl.float32)
        angle = (token % tokens)[:, None] * HALF + lane[None, :]
        c, s = tl.load(cos + angle, inside, 0.0), tl.load(sin + angle, inside, 0.0)
        ga, gb = ga * c + gb * s, gb * c - ga * s  # rotated back
        x = tl.load(qkv + at, inside, 0.0).to(tl.float32)
        y = tl.load(qkv + at + HALF, inside, 0.0).to(tl.float32)
        r = tl.rsqrt((tl.sum(x * x, 1) + tl.sum(y * y, 1)) / (2 * HALF) + eps)[:, None]
        x, y = x * r, y * r
        scale = scales + which * (2 * HALF) + lane
        dscale = dscales + (tl.program_id(0) * 2 + which).to(tl.int64) * (2 * HALF) + lane
        tl.store(dscale, tl.sum(ga * x, 0), lane < HALF)
        tl.store(dscale + HALF, tl.sum(gb * y, 0), lane < HALF)
        ga = ga * tl.load(scale, lane < HALF, 0.0)[None, :]
        gb = gb * tl.load(scale + HALF, lane < HALF, 0.0)[None, :]
        along = ((tl.sum(ga * x, 1) + tl.sum(gb * y, 1)) / (2 * HALF))[:, None]
        tl.store(dqkv + at, ((ga - x * along) * r).to(dqkv.dtype.element_ty), inside)
        tl.store(dqkv + at + HALF, ((gb - y * along) * r).to(dqkv.dtype.element_ty), inside)


@torch.library.custom_op("unmask::norm_rotate", mutates_args=())
def norm_rotate(qkv: Tensor, scales: Tensor, cos: Tensor, sin: Tensor, eps: float) -> Tensor:
    """Queries and keys [B, N, 2, H, D/H] from qkv [B, N, 3, H, D/H], normalised, scaled by `scales` and rotated."""
    qkv, out = qkv.contiguous(), _queries_and_keys(qkv)
    grid, shape = _rows(qkv, _ROWS)
    _norm_rotate[grid[0], 2](qkv, out, scales, cos, sin, _heads(qkv), qkv.shape[1], eps, *shape)
    return out


@norm_rotate.register_fake
def _(qkv: Tensor, scales: Tensor, cos: Tensor, sin: Tensor, eps: float) -> Tensor:
    del scales, cos, sin, eps
    return _queries_and_keys(qkv)


@torch.library.custom_op("unmask::norm_rotate_backward", mutates_args=())
def norm_rotate_backward(
    dq: Tensor, dk: Tensor, dv: Tensor, qkv: Tensor, scales: Tensor, cos: Tensor, sin: Tensor, eps: float
) -> tuple[Tensor, Tensor]:
    """Gradients of qkv and, as partial sums to be added up, of the scales."""
    qkv, dq, dk, dv = (x.contiguous() for x in (qkv, dq, dk, dv))
    grid, shape = _rows(qkv, _ROWS_BACKWARD)
    dqkv, dscales = torch.empty_like(qkv), scales.new_empty(grid[0], *scales.shape)
    _norm_rotate_backward[grid](
        qkv, dq, dk, dv, dqkv, dscales, scales, cos, sin, _heads(qkv), qkv.shape[1], eps, *shape
    )
    return dqkv, dscales


@norm_rotate_backward.register_fake
def _(
    dq: Tensor, dk: Tensor, dv: Tensor, qkv: Tensor, scales: Tensor, cos: Tensor, sin: Tensor, eps: float
) -> tuple[Tensor, Tensor]:
    del dq, dk, dv, cos, sin, eps
    dqkv = torch.empty(qkv.shape, dtype=qkv.dtype, device=qkv.device)
    return dqkv, scales.new_empty(_rows(qkv, _ROWS_BACKWARD)[0][0], *scales.shape)


def _queries_and_keys(qkv: Tensor) -> Tensor:
    batch, length, _, heads, width = qkv.shape
    return torch.empty(batch, length, 2, heads, width, dtype=qkv.dtype, device=qkv.device)


def _heads(qkv: Tensor) -> int:
    """The total number of (token, head) rows."""
    return qkv.shape[0] * qkv.shape[1] * qkv.shape[3]


def _rows(qkv: Tensor, rows: int) -> tuple[tuple[int, int], tuple[int, int, int, int]]:
    heads, half = qkv.shape[3], qkv.shape[4] // 2
    return (triton.cdiv(_heads(qkv), rows), 3), (heads, half, rows, triton.next_power_of_2(half))
