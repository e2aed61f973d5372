"""Triton kernels for what moves much memory and computes little, each one pass where the compiler makes several.

Imported by `fused`, which holds the same formulas in plain PyTorch and is what the networks call. Numbers are read and
written in their own precision and computed in float32.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

_ROWS, _ROWS_BACKWARD = 64, 128
"""Heads of tokens that a program works on."""
_PIXELS = 1024
"""Pixels that a program holds at once: an image that has no more is read once, for its statistics and its values."""
_WARPS = 8


# ------------------------------------------------------------------- queries and keys: normalise, scale, rotate


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
    """Queries and keys [B, N, 2, H, D/H] of qkv [B, N, 3, H, D/H], normalised, scaled by `scales` and rotated."""
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
    """Gradients of qkv and, in parts to be summed, of the scales."""
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
    """Heads of tokens."""
    return qkv.shape[0] * qkv.shape[1] * qkv.shape[3]


def _rows(qkv: Tensor, rows: int) -> tuple[tuple[int, int], tuple[int, int, int, int]]:
    heads, half = qkv.shape[3], qkv.shape[4] // 2
    return (triton.cdiv(_heads(qkv), rows), 3), (heads, half, rows, triton.next_power_of_2(half))


# -------------------------------------------------------------------------- a matrix product with squared ReLU

_M, _N, _K = 128, 256, 64
"""A tile of the product, and how much of the inner dimension is multiplied at a time."""
_TOGETHER = 8
"""Rows of tiles that are worked on together, so that they find their matrix in the cache."""


@triton.jit
def _product(
    a, b, y, c, rows, columns, inner, BACKWARD: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr,
    TOGETHER: tl.constexpr, PROGRAMS: tl.constexpr,
):  # fmt: skip
    """c = f(a bᵀ), by tiles; f is relu² or, backward, multiplication with its derivative 2 √y."""
    down, across = tl.cdiv(rows, M), tl.cdiv(columns, N)
    for tile in tl.range(tl.program_id(0), down * across, PROGRAMS, flatten=True):
        band, place = tile // (TOGETHER * across), tile % (TOGETHER * across)
        height = tl.minimum(down - band * TOGETHER, TOGETHER)
        row, column = (band * TOGETHER + place % height) * M, place // height * N
        sums = tl.zeros([M, N], tl.float32)
        for k in range(0, inner, K):
            sums = tl.dot(a.load([row, k]), b.load([column, k]).T, sums)
        left, right = tl.split(tl.permute(tl.reshape(sums, [M, 2, N // 2]), [0, 2, 1]))
        for half in tl.static_range(2):  # one after the other takes less shared memory
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
    """relu(a bᵀ)² [M, N] of a [M, K] and b [N, K]."""
    return _run_product(a, b, None)


@product_squared_relu.register_fake
def _(a: Tensor, b: Tensor) -> Tensor:
    return a.new_empty(len(a), len(b))


@torch.library.custom_op("unmask::product_squared_relu_backward", mutates_args=())
def product_squared_relu_backward(a: Tensor, b: Tensor, y: Tensor) -> Tensor:
    """(a bᵀ) · 2 √y: the gradient before y = relu(·)², where a bᵀ is the one behind it."""
    return _run_product(a, b, y)


@product_squared_relu_backward.register_fake
def _(a: Tensor, b: Tensor, y: Tensor) -> Tensor:
    del y
    return a.new_empty(len(a), len(b))


# ------------------------------------------------------------------------------ images: group norm, then SiLU


@triton.jit
def _per_group(values, CHANNELS: tl.constexpr, GROUP: tl.constexpr):
    """The sum of each group of neighbouring channels, at each of them."""
    sums = tl.sum(tl.reshape(values, [CHANNELS // GROUP, GROUP]), axis=1)
    return tl.reshape(tl.broadcast_to(sums[:, None], [CHANNELS // GROUP, GROUP]), [CHANNELS])


@triton.jit
def _norm_silu(
    x, shift, weight, bias, keep, y, means, scales, eps, FIRST: tl.constexpr, OWN: tl.constexpr, WIDTH: tl.constexpr,
    PIXELS: tl.constexpr, SHIFTED: tl.constexpr, KEPT: tl.constexpr, GROUP: tl.constexpr, CHANNELS: tl.constexpr,
    TILE: tl.constexpr,
):  # fmt: skip
    sample, own = tl.program_id(1), tl.program_id(0) * CHANNELS + tl.arange(0, CHANNELS)
    channel = FIRST + own  # x [B, P, OWN] is a part of all channels
    x += sample.to(tl.int64) * PIXELS * OWN
    added = tl.load(shift + sample * WIDTH + channel) if SHIFTED else tl.zeros([CHANNELS], tl.float32)
    total = tl.zeros([CHANNELS], tl.float32)
    squares = tl.zeros([CHANNELS], tl.float32)
    origin = tl.load(x + own).to(tl.float32)  # sums of what is near 0 keep their digits
    for start in range(0, PIXELS, TILE):
        pixel = start + tl.arange(0, TILE)
        inside = (pixel < PIXELS)[:, None]
        value = tl.load(x + pixel[:, None] * OWN + own[None, :], inside, 0.0).to(tl.float32)
        value = tl.where(inside, value - origin[None, :], 0.0)
        total += tl.sum(value, 0)
        squares += tl.sum(value * value, 0)
    count = PIXELS * GROUP
    centre = origin + added + total / PIXELS  # of each channel
    mean = _per_group(centre, CHANNELS, GROUP) / GROUP
    off = centre - mean
    within = squares - total * total / PIXELS + PIXELS * off * off
    r = tl.rsqrt(tl.maximum(_per_group(within, CHANNELS, GROUP) / count, 0.0) + eps)
    slope = r * tl.load(weight + channel)
    offset = tl.load(bias + channel) + (added - mean) * slope
    if KEPT:
        kept = tl.load(keep + sample * WIDTH + channel)
    y += sample.to(tl.int64) * PIXELS * WIDTH
    for start in range(0, PIXELS, TILE):
        pixel = start + tl.arange(0, TILE)
        inside = (pixel < PIXELS)[:, None]
        value = tl.load(x + pixel[:, None] * OWN + own[None, :], inside, 0.0).to(tl.float32)
        value = value * slope[None, :] + offset[None, :]
        value = value * tl.sigmoid(value)
        if KEPT:
            value *= kept[None, :]
        tl.store(y + pixel[:, None] * WIDTH + channel[None, :], value.to(y.dtype.element_ty), inside)
    tl.store(means + sample * WIDTH + channel, mean)
    tl.store(scales + sample * WIDTH + channel, r)


@triton.jit
def _norm_silu_backward(
    dy, x, shift, weight, bias, keep, means, scales, dx, dshift, dweight, dbias, FIRST: tl.constexpr,
    OWN: tl.constexpr, WIDTH: tl.constexpr, PIXELS: tl.constexpr, SHIFTED: tl.constexpr, KEPT: tl.constexpr,
    GROUP: tl.constexpr, CHANNELS: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    sample, own = tl.program_id(1), tl.program_id(0) * CHANNELS + tl.arange(0, CHANNELS)
    channel = FIRST + own
    x += sample.to(tl.int64) * PIXELS * OWN
    dx += sample.to(tl.int64) * PIXELS * OWN
    dy += sample.to(tl.int64) * PIXELS * WIDTH
    per_sample = sample * WIDTH + channel
    mean, r = tl.load(means + per_sample), tl.load(scales + per_sample)
    if SHIFTED:
        mean -= tl.load(shift + per_sample)
    w, b = tl.load(weight + channel), tl.load(bias + channel)
    kept = tl.load(keep + per_sample) if KEPT else tl.full([CHANNELS], 1.0, tl.float32)
    sum_g = tl.zeros([CHANNELS], tl.float32)
    sum_gx = tl.zeros([CHANNELS], tl.float32)
    sum_x = tl.zeros([CHANNELS], tl.float32)
    for start in range(0, PIXELS, TILE):
        pixel = start + tl.arange(0, TILE)
        inside = (pixel < PIXELS)[:, None]
        value = tl.load(x + pixel[:, None] * OWN + own[None, :], inside, 0.0).to(tl.float32)
        grad = tl.load(dy + pixel[:, None] * WIDTH + channel[None, :], inside, 0.0).to(tl.float32) * kept[None, :]
        value = tl.where(inside, (value - mean[None, :]) * r[None, :], 0.0)
        z = value * w[None, :] + b[None, :]
        s = tl.sigmoid(z)
        grad = grad * s * (1.0 + z * (1.0 - s))
        sum_g += tl.sum(grad, 0)
        sum_gx += tl.sum(grad * value, 0)
        sum_x += tl.sum(value, 0)
    count = PIXELS * GROUP
    mean_g = _per_group(sum_g * w, CHANNELS, GROUP) / count
    mean_gx = _per_group(sum_gx * w, CHANNELS, GROUP) / count
    for start in range(0, PIXELS, TILE):
        pixel = start + tl.arange(0, TILE)
        inside = (pixel < PIXELS)[:, None]
        value = tl.load(x + pixel[:, None] * OWN + own[None, :], inside, 0.0).to(tl.float32)
        grad = tl.load(dy + pixel[:, None] * WIDTH + channel[None, :], inside, 0.0).to(tl.float32) * kept[None, :]
        value = (value - mean[None, :]) * r[None, :]
        z = value * w[None, :] + b[None, :]
        s = tl.sigmoid(z)
        grad = grad * s * (1.0 + z * (1.0 - s)) * w[None, :]
        result = r[None, :] * (grad - mean_g[None, :] - value * mean_gx[None, :])
        tl.store(dx + pixel[:, None] * OWN + own[None, :], result.to(dx.dtype.element_ty), inside)
    tl.store(dweight + per_sample, sum_gx)
    tl.store(dbias + per_sample, sum_g)
    if SHIFTED:
        tl.store(dshift + per_sample, r * (sum_g * w - PIXELS * mean_g - mean_gx * sum_x))


@torch.library.custom_op("unmask::norm_silu", mutates_args=())
def norm_silu(
    x: Tensor,
    left: Tensor | None,
    shift: Tensor | None,
    weight: Tensor,
    bias: Tensor,
    keep: Tensor | None,
    groups: int,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """silu(group_norm([x, left] + shift))·keep of images [B, H, W, C], and each channel's mean and 1/deviation."""
    y, means, scales = _outputs(x, left)
    for part, first in _parts(x, left):
        grid, sizes = _slabs(y, part, first, groups)
        _norm_silu[grid](
            part, means if shift is None else shift.contiguous(), weight, bias, means if keep is None else keep,
            y, means, scales, eps, *sizes[:4], shift is not None, keep is not None, *sizes[4:], num_warps=_WARPS,
        )  # fmt: skip
    return y, means, scales


@norm_silu.register_fake
def _(
    x: Tensor,
    left: Tensor | None,
    shift: Tensor | None,
    weight: Tensor,
    bias: Tensor,
    keep: Tensor | None,
    groups: int,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    del shift, weight, bias, keep, groups, eps
    return _outputs(x, left)


@torch.library.custom_op("unmask::norm_silu_backward", mutates_args=())
def norm_silu_backward(
    dy: Tensor,
    x: Tensor,
    left: Tensor | None,
    shift: Tensor | None,
    weight: Tensor,
    bias: Tensor,
    keep: Tensor | None,
    means: Tensor,
    scales: Tensor,
    groups: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of x, left and shift, and for each sample those of weight and bias."""
    dy = dy.contiguous()
    dx, dleft, dshift, dweight, dbias = _gradients(x, left, means)
    for (part, first), gradient in zip(_parts(x, left), (dx, dleft), strict=False):
        grid, sizes = _slabs(dy, part, first, groups)
        _norm_silu_backward[grid](
            dy, part, means if shift is None else shift.contiguous(), weight, bias, means if keep is None else keep,
            means, scales, gradient, dshift, dweight, dbias,
            *sizes[:4], shift is not None, keep is not None, *sizes[4:], num_warps=_WARPS,
        )  # fmt: skip
    return dx, dleft, dshift, dweight, dbias


@norm_silu_backward.register_fake
def _(
    dy: Tensor,
    x: Tensor,
    left: Tensor | None,
    shift: Tensor | None,
    weight: Tensor,
    bias: Tensor,
    keep: Tensor | None,
    means: Tensor,
    scales: Tensor,
    groups: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    del dy, shift, weight, bias, keep, scales, groups
    return _gradients(x, left, means)


def _outputs(x: Tensor, left: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    width = x.shape[-1] + (0 if left is None else left.shape[-1])
    y = x.new_empty(*x.shape[:-1], width)
    means, scales = (torch.empty(len(x), width, dtype=torch.float32, device=x.device) for _ in range(2))
    return y, means, scales


def _gradients(x: Tensor, left: Tensor | None, means: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    dx = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    dleft = x.new_empty(0) if left is None else torch.empty(left.shape, dtype=left.dtype, device=x.device)
    dshift, dweight, dbias = (torch.empty_like(means) for _ in range(3))
    return dx, dleft, dshift, dweight, dbias


def _parts(x: Tensor, left: Tensor | None) -> list[tuple[Tensor, int]]:
    """The images, each with its first channel among all."""
    return [(x.contiguous(), 0)] + ([] if left is None else [(left.contiguous(), x.shape[-1])])


def _slabs(y: Tensor, part: Tensor, first: int, groups: int) -> tuple[tuple[int, int], tuple[int, ...]]:
    """Programs (slabs of channels, samples), and the sizes that a program is compiled for."""
    width, own, group = y.shape[-1], part.shape[-1], y.shape[-1] // groups
    pixels = y[0, ..., 0].numel()
    tile = min(_PIXELS, triton.next_power_of_2(pixels))
    return (own // slab(group), len(y)), (first, own, width, pixels, group, slab(group), tile)


def slab(group: int) -> int:
    """Channels of one program: whole groups, at least 32 bytes of a pixel."""
    return max(16, group)
