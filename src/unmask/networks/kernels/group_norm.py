"""Images [B, H, W, C]: group norm followed by SiLU in one pass, and the backward pass."""

import torch
import triton
import triton.language as tl
from torch import Tensor

_PIXELS = 1024
"""Pixels that a program holds at once: an image with no more pixels is read once, for statistics and values."""
_WARPS = 8


@triton.jit
def _per_group(values, CHANNELS: tl.constexpr, GROUP: tl.constexpr):
    """The sum over each group of neighbouring channels, broadcast to each channel of the group."""
    sums = tl.sum(tl.reshape(values, [CHANNELS // GROUP, GROUP]), axis=1)
    return tl.reshape(tl.broadcast_to(sums[:, None], [CHANNELS // GROUP, GROUP]), [CHANNELS])


@triton.jit
def _norm_silu(
    x, shift, weight, bias, keep, y, means, scales, eps, FIRST: tl.constexpr, OWN: tl.constexpr, WIDTH: tl.constexpr,
    PIXELS: tl.constexpr, SHIFTED: tl.constexpr, KEPT: tl.constexpr, GROUP: tl.constexpr, CHANNELS: tl.constexpr,
    TILE: tl.constexpr,
):  # fmt: skip
    sample, own = tl.program_id(1), tl.program_id(0) * CHANNELS + tl.arange(0, CHANNELS)
    channel = FIRST + own  # x [B, P, OWN] holds some of all channels
    x += sample.to(tl.int64) * PIXELS * OWN
    added = tl.load(shift + sample * WIDTH + channel) if SHIFTED else tl.zeros([CHANNELS], tl.float32)
    total = tl.zeros([CHANNELS], tl.float32)
    squares = tl.zeros([CHANNELS], tl.float32)
    origin = tl.load(x + own).to(tl.float32)  # sums of values near 0 keep their precision
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
    """silu(group_norm([x, left] + shift))·keep for images [B, H, W, C], and the mean and 1/deviation per channel."""
    y, means, scales = _outputs(x, left)
    for part, first in _parts(x, left):
        grid, sizes = _slabs(y, part, first, groups)
        _norm_silu[grid](
            part, means if shift is None else shift.contiguous(), weight, bias, means if keep is None else keep,
            y, means, scales, eps, *sizes[:4], shift is not None, keep is not None, *sizes[4:], num_warps=_WARPS,
        )  # fmt: skip
    return y, means, scales


@norm_silu.register_fake
def _(x: Tensor, left: Tensor | None, *others: object) -> tuple[Tensor, Tensor, Tensor]:
    del others
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
    """Gradients of x, left and shift, and those of weight and bias per sample."""
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
def _(dy: Tensor, x: Tensor, left: Tensor | None, *others: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    del dy
    return _gradients(x, left, others[4])  # the means


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
    """The input tensors, each with the index of its first channel among all channels."""
    return [(x.contiguous(), 0)] + ([] if left is None else [(left.contiguous(), x.shape[-1])])


def _slabs(y: Tensor, part: Tensor, first: int, groups: int) -> tuple[tuple[int, int], tuple[int, ...]]:
    """The grid of programs (slabs of channels, samples), and the sizes that a program is compiled for."""
    width, own, group = y.shape[-1], part.shape[-1], y.shape[-1] // groups
    pixels = y[0, ..., 0].numel()
    tile = min(_PIXELS, triton.next_power_of_2(pixels))
    return (own // slab(group), len(y)), (first, own, width, pixels, group, slab(group), tile)


def slab(group: int) -> int:
    """Channels per program: whole groups, and at least 32 bytes of a pixel."""
    return max(16, group)
