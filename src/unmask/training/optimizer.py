"""Optimisers: AdamW for everything, or Muon for the hidden matrices and AdamW for the rest.

Weight decay acts on matrices only: biases, norms and embeddings are left alone.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ..mistakes import require
from ..networks.network import HiddenLayer


@dataclass(frozen=True)
class OptimizerConfig:
    """Which optimiser and its numbers; the defaults are the paper's text8 setting."""

    name: str = "adamw"
    """adamw or muon."""
    rate: float = 3e-4
    """Peak learning rate of AdamW."""
    weight_decay: float = 0.03
    betas: tuple[float, float] = (0.9, 0.99)
    muon_rate: float = 3e-3
    """Peak learning rate of Muon, for the hidden matrices."""
    schedule_rate: float = 1e-2
    """Peak learning rate of GenMD4's w."""

    def __post_init__(self) -> None:
        allowed = ", ".join(BUILDERS)
        require(self.name in BUILDERS, "unknown optimiser", got=self.name, allowed=allowed, do="name one of them")
        for value in (self.rate, self.muon_rate, self.schedule_rate):
            require(value > 0, "a learning rate is not positive", got=value, allowed="> 0", do="pass a positive rate")
        require(
            self.weight_decay >= 0,
            "weight decay is negative",
            got=self.weight_decay,
            allowed=">= 0",
            do="use 0 for none",
        )


class Optimizers:
    """One or more optimisers that step together; each group remembers its peak rate."""

    def __init__(self, parts: list[torch.optim.Optimizer]):
        self.parts = parts
        self._peaks = [[group["lr"] for group in part.param_groups] for part in parts]

    def step(self, factor: float) -> None:
        """One step at this fraction of the peak rates."""
        for part, peaks in zip(self.parts, self._peaks, strict=True):
            for group, peak in zip(part.param_groups, peaks, strict=True):
                group["lr"] = peak * factor
            part.step()

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for part in self.parts:
            part.zero_grad(set_to_none=True)

    def state_dict(self) -> list[dict[str, Any]]:
        """The state of each part."""
        return [part.state_dict() for part in self.parts]

    def load_state_dict(self, states: list[dict[str, Any]]) -> None:
        """Put a state back."""
        for part, state in zip(self.parts, states, strict=True):
            part.load_state_dict(state)


def build_optimizer(config: OptimizerConfig, network: nn.Module, schedule: list[Tensor] | None = None) -> Optimizers:
    """An optimiser for a network, and with a group of its own for what a learned schedule learns."""
    parts = BUILDERS[config.name](config, network)
    if schedule:
        parts.append(torch.optim.AdamW(schedule, lr=config.schedule_rate, betas=config.betas, weight_decay=0.0))
    return Optimizers(parts)


def hidden_matrices(network: nn.Module) -> list[Tensor]:
    """The matrices of attention and MLP layers; neither embeddings, nor the output map, nor conditioning."""
    layers = (layer for layer in network.modules() if isinstance(layer, HiddenLayer))
    return [m.weight for layer in layers for m in layer.modules() if isinstance(m, nn.Linear)]


def _adamw(config: OptimizerConfig, network: nn.Module) -> list[torch.optim.Optimizer]:
    return [_adamw_over(config, [p for p in network.parameters() if p.requires_grad], network)]


def _muon(config: OptimizerConfig, network: nn.Module) -> list[torch.optim.Optimizer]:
    hidden = hidden_matrices(network)
    chosen = {id(p) for p in hidden}
    rest = [p for p in network.parameters() if p.requires_grad and id(p) not in chosen]
    muon = torch.optim.Muon(hidden, lr=config.muon_rate, weight_decay=config.weight_decay, momentum=0.95)
    return [muon, _adamw_over(config, rest, network)]


def _adamw_over(config: OptimizerConfig, parameters: list[nn.Parameter], network: nn.Module) -> torch.optim.Optimizer:
    embeddings = {id(m.weight) for m in network.modules() if isinstance(m, nn.Embedding)}
    decays = [p for p in parameters if p.ndim >= 2 and id(p) not in embeddings]
    spared = [p for p in parameters if p.ndim < 2 or id(p) in embeddings]
    groups = [{"params": decays, "weight_decay": config.weight_decay}, {"params": spared, "weight_decay": 0.0}]
    fused = all(p.is_cuda for p in parameters)
    return torch.optim.AdamW([g for g in groups if g["params"]], lr=config.rate, betas=config.betas, fused=fused)


BUILDERS: dict[str, Callable[[OptimizerConfig, nn.Module], list[torch.optim.Optimizer]]] = {
    "adamw": _adamw,
    "muon": _muon,
}
