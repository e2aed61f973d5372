"""What is trained: a network together with its training objective. One class per method."""

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ..core import Draw, Estimator, Streams, paired, stratified
from ..core.points import Spread
from ..evaluation.likelihood import DEFAULT, Fit, Taken, estimator_for
from ..evaluation.loss import Loss, constant_shape, head_losses, masked_loss
from ..networks import Network
from ..networks.network import Dropout, compiled
from ..sampling import MASKED, Family
from .graph import Recorded


def spread_of(rows: int) -> Spread:
    """How a batch spreads its k: in pairs k and N+1−k if the number of rows is even, which makes shapes constant."""
    return stratified if rows % 2 else paired


class Needs:
    """What a method requires of its network; the base class of its configuration."""

    needs_time: ClassVar[bool] = False
    """The network must see t."""
    needs_causal: ClassVar[bool] = False
    """The network must be causal: no position sees later ones."""
    needs_blocks: ClassVar[bool] = False
    """The network must read block by block."""


class Method(nn.Module, ABC):
    """A network and how it is trained. Its parameters are those of the network and any of the method itself."""

    family: Family = MASKED
    """How the predictions of the network are interpreted."""

    def __init__(self, network: Network):
        super().__init__()
        self.network = network
        self._features, self._losses = network.features, head_losses
        self._recording = self._accumulates = False
        self._recorded: Recorded | None = None

    def compile_parts(self, whole: bool = False, **options: Any) -> None:
        """Compile the network and the chunk losses into graphs of constant shape (`torch.compile`).

        The network is compiled block by block or as a whole; the latter takes minutes for deep networks and is a few
        per cent faster.
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
        """The training loss summed over the batch, in nats; draws are spread over the global batch of `strata` rows."""

    @abstractmethod
    def estimator(self) -> Estimator:
        """A low-variance estimator of the bound, whatever the training loss is; its process is that of the model."""

    def bound(self, name: str = DEFAULT, steps: Taken | None = None, fit: Fit | None = None) -> Estimator:
        """The requested estimator of the model's bound: MD4's (`estimator_for`) unless the method overrides it.
        Estimators that do not apply to the method are refused.
        """
        return estimator_for(self.estimator().process, name, steps, fit)

    def check_shape(self, shape: tuple[int, ...]) -> None:
        """Raise an error if the method cannot be trained on rows of this shape."""

    def own_parameters(self) -> list[Tensor]:
        """The parameters that the method learns besides the network; they have their own learning rate."""
        return []

    def record(self, accumulates: bool) -> None:
        """From now on, run losses of constant shape and their gradients as a single CUDA graph (`graph.Recorded`)."""
        self._recording, self._accumulates = True, accumulates

    def _total(self, x_0: Tensor, draw: Draw, estimator: Estimator, dropout: Dropout, label: Tensor | None) -> Tensor:
        """The bound of a draw, summed over the batch: all that a method without parameters of its own needs."""
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
        """The bound of a draw. `learned`: tensors that its losses depend on besides the network."""
        t = draw.t.float()  # as the network sees it: a single shape and dtype for the compiled network
        features = self._features(estimator.network_input(x_0, draw), t, label, dropout)
        losses = head_losses if learned else self._losses
        return masked_loss(self.network, features, x_0, draw, estimator, learned=learned, losses=losses)
