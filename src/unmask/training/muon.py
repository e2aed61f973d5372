"""Muon (Jordan et al., 2024), with matrices of equal shape updated together and convolution kernels as matrices.

PyTorch's implementation updates one matrix after another, with some thirty small kernel launches each, which leaves the
device idle if the matrices are small. It also accepts matrices only; here a convolution kernel [out, in, height, width]
is treated as a matrix from in·height·width to out.
"""

from collections.abc import Callable, Iterable
from itertools import groupby
from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor, distribute_tensor

PARTS = "parts"
"""Key of a parameter group: how many matrices are stacked in one (queries, keys, values); each is orthogonalised
separately."""


COEFFICIENTS, STEPS, LEAST = (3.4445, -4.775, 2.0315), 5, 1e-7
"""Of the iteration that orthogonalises a matrix, and the smallest norm that it divides by."""


class Muon(torch.optim.Optimizer):
    """buffer ← μ·buffer + (1−μ)·g,  W ← (1 − ηλ)·W − η √max(1, rows/columns) · orthogonal((1−μ)·g + μ·buffer)."""

    def __init__(self, groups: Iterable[dict[str, Any]], lr: float, weight_decay: float = 0.1, momentum: float = 0.95):
        super().__init__(groups, {"lr": lr, "weight_decay": weight_decay, "momentum": momentum, PARTS: 1})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Perform one update."""
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
        for p in matrices:
            if not self.state[p]:
                self.state[p]["momentum_buffer"] = torch.zeros_like(p)
        buffers = [self.state[p]["momentum_buffer"] for p in matrices]
        torch._foreach_lerp_(buffers, gradients, 1 - momentum)
        ahead = torch.stack([_whole(x) for x in torch._foreach_lerp(gradients, buffers, momentum)])
        single = ahead.reshape(len(ahead) * parts, ahead.shape[1] // parts, -1)
        update = orthogonal(single).view(ahead.shape)
        own = [_shared_like(x, p) for x, p in zip(update.to(ahead.dtype), matrices, strict=True)]
        _, rows, columns = single.shape
        torch._foreach_mul_(matrices, 1 - rate * group["weight_decay"])
        torch._foreach_add_(matrices, own, alpha=-rate * max(1.0, rows / columns) ** 0.5)


def orthogonal(matrices: Tensor) -> Tensor:
    """Approximately U Vᵀ for each matrix U S Vᵀ [M, rows, columns]: X ← aX + (bA + cA²)X with A = X Xᵀ.

    In bf16 on a GPU; most CPUs have no bf16 arithmetic, so float32 is many times faster there.
    """
    a, b, c = COEFFICIENTS
    x = matrices.bfloat16() if matrices.is_cuda else matrices.float()
    tall = x.shape[1] > x.shape[2]
    if tall:
        x = x.mT
    x = x / x.norm(dim=(1, 2), keepdim=True).clamp(min=LEAST)
    for _ in range(STEPS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return (x.mT if tall else x).contiguous()


def _shape(matrix: Tensor) -> tuple[int, ...]:
    return tuple(matrix.shape)


def _whole(matrix: Tensor) -> Tensor:
    """The full matrix if ranks hold parts of it."""
    return matrix.full_tensor() if isinstance(matrix, DTensor) else matrix


def _shared_like(matrix: Tensor, like: Tensor) -> Tensor:
    """The part that this rank holds of a matrix that every rank has computed in full."""
    if not isinstance(like, DTensor):
        return matrix
    return distribute_tensor(matrix, like.device_mesh, like.placements, src_data_rank=None)
