"""Muon (Jordan et al., 2024), the matrices of one shape treated together.

PyTorch's takes one matrix after the other, some thirty small kernels for each: where the matrices are small, a device
waits for them to be launched.
"""

from collections.abc import Callable, Iterable
from itertools import groupby
from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor, distribute_tensor

PARTS = "parts"
"""Of a group: how many matrices are stacked in one, as queries, keys and values are; each is made orthogonal itself."""


class Muon(torch.optim.Muon):
    """buffer ← μ·buffer + (1−μ)·g,  W ← (1 − ηλ)·W − η √max(1, rows/columns) · orthogonal((1−μ)·g + μ·buffer)."""

    def __init__(self, groups: Iterable[dict[str, Any]], **options: Any):
        super().__init__(groups, **options)
        for group in self.param_groups:
            group.setdefault(PARTS, 1)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One update."""
        found = None
        if closure is not None:
            with torch.enable_grad():
                found = closure()
        for group in self.param_groups:
            learning = [p for p in group["params"] if p.grad is not None]
            for _, alike in groupby(sorted(learning, key=_shape), key=_shape):
                self._step_together(list(alike), group)
        return found

    def _step_together(self, matrices: list[Tensor], group: dict[str, Any]) -> None:
        rate, momentum, parts = group["lr"], group["momentum"], group[PARTS]
        gradients: list[Tensor] = [p.grad for p in matrices]  # type: ignore[misc]  # `step` looked
        buffers = [self.state[p].setdefault("momentum_buffer", torch.zeros_like(p)) for p in matrices]
        torch._foreach_lerp_(buffers, gradients, 1 - momentum)
        ahead = torch.stack([_whole(x) for x in torch._foreach_lerp(gradients, buffers, momentum)])
        single = ahead.view(len(ahead) * parts, -1, ahead.shape[2])
        update = orthogonal(single, group["ns_coefficients"], group["ns_steps"], group["eps"]).view_as(ahead)
        own = [_shared_like(x, p) for x, p in zip(update.to(ahead.dtype), matrices, strict=True)]
        _, rows, columns = single.shape
        torch._foreach_mul_(matrices, 1 - rate * group["weight_decay"])
        torch._foreach_add_(matrices, own, alpha=-rate * max(1.0, rows / columns) ** 0.5)


def orthogonal(matrices: Tensor, coefficients: tuple[float, float, float], steps: int, eps: float) -> Tensor:
    """About U Vᵀ of each matrix U S Vᵀ [M, rows, columns]: X ← aX + (bA + cA²)X with A = X Xᵀ.

    In bf16 on a GPU; most CPUs have no arithmetic for that, and float32 is many times as fast there.
    """
    a, b, c = coefficients
    x = matrices.bfloat16() if matrices.is_cuda else matrices.float()
    tall = x.shape[1] > x.shape[2]
    if tall:
        x = x.mT
    x = x / x.norm(dim=(1, 2), keepdim=True).clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return (x.mT if tall else x).contiguous()


def _shape(matrix: Tensor) -> tuple[int, ...]:
    return tuple(matrix.shape)


def _whole(matrix: Tensor) -> Tensor:
    """All of it, where ranks hold parts."""
    return matrix.full_tensor() if isinstance(matrix, DTensor) else matrix


def _shared_like(matrix: Tensor, like: Tensor) -> Tensor:
    """What this rank holds of it, where every rank has computed all."""
    if not isinstance(like, DTensor):
        return matrix
    return distribute_tensor(matrix, like.device_mesh, like.placements, src_data_rank=None)
