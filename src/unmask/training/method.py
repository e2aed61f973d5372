"""What is trained: a network together with the objective it is trained on. One class for each method."""

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor, nn

from ..core import Draw, Estimator, Streams
from ..networks import Network
from .loss import Loss, head_losses, masked_loss


class Method(nn.Module, ABC):
    """A network and how it learns. Its parameters are the network's and whatever the method learns itself."""

    def __init__(self, network: Network):
        super().__init__()
        self.network = network
        self._features, self._losses = network.features, head_losses

    def compile_parts(self, whole: bool = False, **options: Any) -> None:
        """Compile the network and the losses of a chunk, in graphs of constant shape (`torch.compile`).

        The network block by block, or as a whole: that takes minutes for deep ones and gains a few per cent.
        """
        if whole:
            self._features = torch.compile(self.network.features, fullgraph=True, dynamic=False, **options)
        else:
            self.network.compile_parts(**options)
        self._losses = torch.compile(head_losses, fullgraph=True, dynamic=False, **options)

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

    def own_parameters(self) -> list[Tensor]:
        """What the method learns besides the network; it gets a learning rate of its own."""
        return []

    def _charge(
        self,
        x_0: Tensor,
        draw: Draw,
        estimator: Estimator,
        streams: Streams,
        label: Tensor | None,
        learned: tuple[Tensor, ...] = (),
    ) -> Loss:
        """The bound of a draw."""
        t = draw.t.float()  # as a network sees it: one shape and one kind of number for the compiled one
        dropout = self.network.draw_dropout(streams)
        features = self._features(estimator.process.hide(x_0, draw.mask), t, label, dropout)
        losses = head_losses if draw.count is None else self._losses  # compiled for one shape only
        return masked_loss(self.network, features, x_0, draw, estimator, learned=learned, losses=losses)
