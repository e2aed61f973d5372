"""Muon (Jordan et al., 2024), the matrices of one shape treated together.

PyTorch's takes one matrix after the other, some thirty small kernels for each: for a network of a few million weights
that takes longer than the forward and the backward pass together.
"""

from collections.abc import Callable
from itertools import groupby
from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor


class Muon(torch.optim.Muon):
    """buffer ← μ·buffer + (1−μ)·g,  W ← (1 − ηλ)·W − η √max(1, rows/columns) · orthogonal((1−μ)·g + μ·buffer)."""

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One update; sharded matrices are left to PyTorch, which gathers them one by one."""
        if any(isinstance(p, DTensor) for group in self.param_groups for p in group["params"]):
            return super().step(closure)  # type: ignore[no-untyped-call]
        if closure is not None:
            with torch.enable_grad():
                closure()
        for group in self.param_groups:
            learning = [p for p in group["params"] if p.grad is not None]
            for _, alike in groupby(sorted(learning, key=_shape), key=_shape):
                self._step_together(list(alike), group)
        return None

    def _step_together(self, matrices: list[Tensor], group: dict[str, Any]) -> None:
        rate, momentum = group["lr"], group["momentum"]
        gradients: list[Tensor] = [p.grad for p in matrices]  # type: ignore[misc]  # `step` looked
        buffers = [self.state[p].setdefault("momentum_buffer", torch.zeros_like(p)) for p in matrices]
        torch._foreach_lerp_(buffers, gradients, 1 - momentum)
        ahead = torch.stack(torch._foreach_lerp(gradients, buffers, momentum))
        update = orthogonal(ahead, group["ns_coefficients"], group["ns_steps"], group["eps"]).to(matrices[0].dtype)
        rows, columns = matrices[0].shape
        torch._foreach_mul_(matrices, 1 - rate * group["weight_decay"])
        torch._foreach_add_(matrices, update.unbind(), alpha=-rate * max(1.0, rows / columns) ** 0.5)


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
    return x.mT if tall else x


def _shape(matrix: Tensor) -> tuple[int, ...]:
    return tuple(matrix.shape)
