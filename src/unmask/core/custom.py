"""A schedule defined by any user function."""

from collections.abc import Callable

import torch
from torch import Tensor

from ..mistakes import require
from . import checks
from .schedule import Schedule


class Custom(Schedule):
    """Any non-increasing function α with α(0) = 1; the derivative is computed by autograd, the inverse by bisection.

    Also pass `mask_prob` (a function that computes 1 − α(t) without cancellation) if you need full relative
    precision near t = 0; otherwise 1 − α(t) is computed by subtraction, with an absolute error of one rounding.
    """

    _GRID = 4097
    _BISECTIONS = 80

    def __init__(self, alpha: Callable[[Tensor], Tensor], mask_prob: Callable[[Tensor], Tensor] | None = None):
        self._alpha = alpha
        self._mask_prob = mask_prob or (lambda t: (1 - alpha(t)).clamp(min=0))
        self._check()

    def _check(self) -> None:
        t = torch.linspace(0, 1, self._GRID, dtype=torch.float64)
        alpha = self._alpha(t)
        checks.same_shape(alpha, t, "α(t) of the custom schedule")
        start = alpha[0].item()
        require(
            abs(start - 1) <= 1e-9,
            "the custom schedule does not start at α(0) = 1",
            got=f"α(0) = {start}",
            allowed="α(0) = 1",
            do="divide your function by its value at 0, or use Shifted for an offset",
        )
        rise = alpha.diff()
        worst = int(rise.nan_to_num(nan=torch.inf).argmax())
        require(
            bool((rise <= 0).all()),
            "the custom schedule is not decreasing",
            got=f"α({t[worst]:.4f}) = {alpha[worst]:.6g} then α({t[worst + 1]:.4f}) = {alpha[worst + 1]:.6g}",
            allowed="α(t) non-increasing on [0, 1]",
            do="check the function's sign and domain",
        )
        require(
            alpha[-1].item() >= 0,
            "the custom schedule leaves [0, 1]",
            got=f"α(1) = {alpha[-1].item()}",
            allowed="0 <= α(1)",
            do="rescale the function",
        )
        mismatch = (alpha + self._mask_prob(t) - 1).abs().max().item()
        require(
            mismatch <= 1e-9,
            "mask_prob of the custom schedule is not 1 − α",
            got=f"a difference of {mismatch:.3g}",
            allowed="at most 1e-9",
            do="leave it out, or correct it",
        )

    def alpha(self, t: Tensor) -> Tensor:
        checks.times(t)
        return self._alpha(t)

    def mask_prob(self, t: Tensor) -> Tensor:
        checks.times(t)
        return self._mask_prob(t)

    def dalpha(self, t: Tensor) -> Tensor:
        """−d(1−α)/dt by autograd; itself differentiable if gradients are enabled, for a learned α."""
        checks.times(t)
        differentiable = torch.is_grad_enabled()
        with torch.inference_mode(False), torch.enable_grad():
            leaf = t.detach().clone().requires_grad_()
            (slope,) = torch.autograd.grad(self._mask_prob(leaf).sum(), leaf, create_graph=differentiable)
        return -slope

    def loss_weight(self, t: Tensor) -> Tensor:
        """α'_t/(1−α_t); 0 where 1−α_t rounds to 0, since nothing is masked there."""
        mask_prob = self.mask_prob(t)
        return torch.where(mask_prob > 0, self.dalpha(t) / mask_prob, 0.0)

    def time(self, alpha: Tensor, mask_prob: Tensor) -> Tensor:
        low, high = torch.zeros_like(alpha), torch.ones_like(alpha)
        for _ in range(self._BISECTIONS):
            middle = (low + high) / 2
            # compare whichever of α and 1−α is small, so that no precision is lost at either end
            early = torch.where(mask_prob < 0.5, self._mask_prob(middle) < mask_prob, self._alpha(middle) > alpha)
            low, high = torch.where(early, middle, low), torch.where(early, high, middle)
        return (low + high) / 2

    def __repr__(self) -> str:
        return f"Custom({getattr(self._alpha, '__name__', self._alpha)})"
