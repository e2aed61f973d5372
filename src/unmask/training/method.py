"""What is trained: a network together with the objective it is trained on. One class for each method."""

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ..core import Draw, Estimator, Streams, paired, stratified
from ..core.points import Spread
from ..evaluation.likelihood import DEFAULT, Fit, Taken, estimator_for
from ..networks import Network
from ..networks.network import Dropout, compiled
from ..sampling import MASKED, Family
from .graph import Recorded
from .loss import Loss, constant_shape, head_losses, masked_loss


def spread_of(rows: int) -> Spread:
    """How a batch spreads its k: in pairs of k and N+1−k where it can, which makes its shape constant."""
    return stratified if rows % 2 else paired


class Needs:
    """What a method asks of its network; the base of its configuration."""

    needs_time: ClassVar[bool] = False
    """That it sees t."""
    needs_causal: ClassVar[bool] = False
    """That it cannot look ahead."""
    needs_blocks: ClassVar[bool] = False
    """That it reads block by block."""


class Method(nn.Module, ABC):
    """A network and how it learns. Its parameters are the network's and whatever the method learns itself."""

    family: Family = MASKED
    """What its network's predictions mean."""

    def __init__(self, network: Network):
        super().__init__()
        self.network = network
        self._features, self._losses = network.features, head_losses
        self._recording = self._accumulates = False
        self._recorded: Recorded | None = None

    def compile_parts(self, whole: bool = False, **options: Any) -> None:
        """Compile the network and the losses of a chunk, in graphs of constant shape (`torch.compile`).

        The network block by block, or as a whole: that takes minutes for deep ones and gains a few per cent.
        """
        if whole:
            self._features = compiled(self.network.features, **options)
        else:
            self.network.compile_parts(**options)
        self._losses = compiled(head_losses, **options)

    @abstractmethod
    def forward(
        self,
        x_0: Tensor,
        streams: Streams,
        *,
        valid: Tensor | None = None,
        label: Tensor | None = None,
        strata: int | None = None,
    ) -> Tensor:
        """The training loss summed over the batch, nats; `strata` is the global batch the draws are spread over."""

    @abstractmethod
    def estimator(self) -> Estimator:
        """What measures the bound, with little variance and whatever was trained on; its process is the model's."""

    def bound(self, name: str = DEFAULT, steps: Taken | None = None, fit: Fit | None = None) -> Estimator:
        """What bounds this method's model in the way that is asked for: MD4's (`estimator_for`) unless it says
        otherwise. What it cannot be measured by is refused.
        """
        return estimator_for(self.estimator().process, name, steps, fit)

    def check_shape(self, shape: tuple[int, ...]) -> None:
        """Refuse rows of a shape that the method cannot be trained on."""

    def own_parameters(self) -> list[Tensor]:
        """What the method learns besides the network; it gets a learning rate of its own."""
        return []

    def record(self, accumulates: bool) -> None:
        """From now on, run losses of constant shape and their gradients as one CUDA graph (`graph.Recorded`)."""
        self._recording, self._accumulates = True, accumulates

    def _total(self, x_0: Tensor, draw: Draw, estimator: Estimator, dropout: Dropout, label: Tensor | None) -> Tensor:
        """The bound of a draw, summed: all that a method needs which learns nothing but its network."""
        if not (self._recording and constant_shape(self.network, draw)):
            return self._nelbo(x_0, draw, estimator, dropout, label).total
        if self._recorded is None:

            def diffusion(
                x_0: Tensor, t: Tensor, mask: Tensor, weight: Tensor, label: Tensor | None, *dropout: Tensor
            ) -> Tensor:
                none = torch.zeros_like(weight)
                same = replace(draw, t=t, mask=mask, weight=weight, control=none, reconstruction=none, prior=none)
                return self._nelbo(x_0, same, estimator, dropout, label).total

            self._recorded = Recorded(diffusion, list(self.parameters()), self._accumulates)
        ends = (draw.control + draw.reconstruction + draw.prior).sum()
        return self._recorded(x_0, draw.t, draw.mask, draw.weight, label, *dropout) + ends

    def _nelbo(
        self,
        x_0: Tensor,
        draw: Draw,
        estimator: Estimator,
        dropout: Dropout,
        label: Tensor | None,
        learned: tuple[Tensor, ...] = (),
    ) -> Loss:
        """The bound of a draw. `learned`: what its losses depend on besides the network."""
        t = draw.t.float()  # as a network sees it: one shape and one kind of number for the compiled one
        features = self._features(estimator.network_input(x_0, draw), t, label, dropout)
        losses = head_losses if learned else self._losses
        return masked_loss(self.network, features, x_0, draw, estimator, learned=learned, losses=losses)
