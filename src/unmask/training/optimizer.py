"""Optimisers: AdamW for everything, or Muon for the hidden matrices and AdamW for the rest.

Weight decay applies to matrices only, not to biases, norms or embeddings.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_optimizer_state_dict, set_optimizer_state_dict

from ..mistakes import require
from ..networks.network import HiddenLayer
from .muon import PARTS, Muon

_BY_NAME = StateDictOptions(flatten_optimizer_state_dict=True)


@dataclass(frozen=True)
class OptimizerConfig:
    """The optimiser and its hyperparameters; the defaults are the paper's text8 setting."""

    optimizer: Literal["adamw", "muon"] = "adamw"
    """adamw for all parameters, or muon for the hidden matrices and adamw for the rest."""
    rate: float = 3e-4
    """Peak learning rate of AdamW."""
    weight_decay: float = 0.03
    """Weight decay; it applies to matrices only."""
    betas: tuple[float, float] = (0.9, 0.99)
    """Decay rates of AdamW's first and second moments."""
    muon_rate: float = 3e-3
    """Peak learning rate of Muon."""
    schedule_rate: float = 1e-2
    """Peak learning rate of GenMD4's exponents w."""

    def __post_init__(self) -> None:
        known = self.optimizer in BUILDERS
        require(known, "unknown optimiser", got=self.optimizer, allowed=", ".join(BUILDERS), do="choose one of them")
        for value in (self.rate, self.muon_rate, self.schedule_rate):
            require(value > 0, "a learning rate is not positive", got=value, allowed="> 0", do="pass a positive rate")
        good = all(0 <= beta < 1 for beta in self.betas)
        require(good, "a beta is out of range", got=self.betas, allowed="0 <= beta < 1", do="use 0.9 and 0.99")
        require(
            self.weight_decay >= 0,
            "weight decay is negative",
            got=self.weight_decay,
            allowed=">= 0",
            do="use 0 for none",
        )


class Optimizers:
    """One or more optimisers that step together; the peak rate of each group is stored."""

    def __init__(self, parts: list[torch.optim.Optimizer]):
        self.parts = parts
        self._peaks = [[group["lr"] for group in part.param_groups] for part in parts]

    def step(self, factor: float) -> None:
        """Take a step at this fraction of the peak rates."""
        for part, peaks in zip(self.parts, self._peaks, strict=True):
            for group, peak in zip(part.param_groups, peaks, strict=True):
                group["lr"] = peak * factor
            part.step()

    def zero_grad(self) -> None:
        """Clear the gradients."""
        for part in self.parts:
            part.zero_grad(set_to_none=True)

    def tensors(self, module: nn.Module) -> dict[str, Tensor]:
        """Moments and step counts, named after the module's parameters; the rest follows from the configuration."""
        state: dict[str, Any] = get_optimizer_state_dict(module, self.parts, options=_BY_NAME)
        return {name: value for name, value in state.items() if isinstance(value, Tensor)}

    def load(self, module: nn.Module, tensors: dict[str, Tensor]) -> None:
        """Restore moments and step counts."""
        state: dict[str, Any] = dict(get_optimizer_state_dict(module, self.parts, options=_BY_NAME))
        set_optimizer_state_dict(module, self.parts, state | tensors, options=_BY_NAME)


def build_optimizer(config: OptimizerConfig, network: nn.Module, own: Sequence[Tensor] = ()) -> Optimizers:
    """Build the optimiser of a network, with a separate group for the parameters of the method itself (`own`)."""
    parts = BUILDERS[config.optimizer](config, network)
    if own:
        parts.append(torch.optim.AdamW(list(own), lr=config.schedule_rate, betas=config.betas, weight_decay=0.0))
    return Optimizers(parts)


def hidden_matrices(network: nn.Module) -> list[tuple[Tensor, int]]:
    """The matrices and convolution kernels of hidden layers, each with the number of matrices stacked in it; without
    embeddings, the output map and conditioning.
    """
    layers = (layer for layer in network.modules() if isinstance(layer, HiddenLayer))
    maps = (
        (m, layer.stacked.get(name, 1))
        for layer in layers
        for name, m in layer.named_children()
        if name not in layer.spared
    )
    return [(m.weight, parts) for m, parts in maps if isinstance(m, nn.Linear | nn.Conv1d | nn.Conv2d)]


def _adamw(config: OptimizerConfig, network: nn.Module) -> list[torch.optim.Optimizer]:
    return [_adamw_over(config, [p for p in network.parameters() if p.requires_grad], network)]


def _muon(config: OptimizerConfig, network: nn.Module) -> list[torch.optim.Optimizer]:
    hidden = hidden_matrices(network)
    kind, allowed = type(network).__name__, "a network with layers of type unmask.networks.HiddenLayer"
    require(
        bool(hidden),
        "this network has no matrices for Muon",
        got=kind,
        allowed=allowed,
        do="use adamw, or mark its layers",
    )
    chosen = {id(p) for p, _ in hidden}
    rest = [p for p in network.parameters() if p.requires_grad and id(p) not in chosen]
    groups = [
        {"params": [p for p, n in hidden if n == parts], PARTS: parts} for parts in sorted({n for _, n in hidden})
    ]
    muon = Muon(groups, lr=config.muon_rate, weight_decay=config.weight_decay, momentum=0.95)
    return [muon, _adamw_over(config, rest, network)]


def _adamw_over(config: OptimizerConfig, parameters: list[nn.Parameter], network: nn.Module) -> torch.optim.Optimizer:
    embeddings = {id(m.weight) for m in network.modules() if isinstance(m, nn.Embedding)}
    decays = [p for p in parameters if p.ndim >= 2 and id(p) not in embeddings]
    spared = [p for p in parameters if p.ndim < 2 or id(p) in embeddings]
    groups = [{"params": decays, "weight_decay": config.weight_decay}, {"params": spared, "weight_decay": 0.0}]
    return torch.optim.AdamW([g for g in groups if g["params"]], lr=config.rate, betas=config.betas, fused=True)


BUILDERS: dict[str, Callable[[OptimizerConfig, nn.Module], list[torch.optim.Optimizer]]] = {
    "adamw": _adamw,
    "muon": _muon,
}
