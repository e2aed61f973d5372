"""What is trained: a network together with the objective it is trained on. One class for each method."""

from abc import ABC, abstractmethod

from torch import Tensor, nn

from ..core import Estimator, Streams
from ..networks import Network


class Method(nn.Module, ABC):
    """A network and how it learns. Its parameters are the network's and whatever the method learns itself."""

    def __init__(self, network: Network):
        super().__init__()
        self.network = network

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
        """The training loss of each sequence [B], nats; `strata` is the global batch the draws are spread over."""

    @abstractmethod
    def estimator(self) -> Estimator:
        """What measures the bound, with little variance and whatever was trained on; its process is the model's."""

    def own_parameters(self) -> list[Tensor]:
        """What the method learns besides the network; it gets a learning rate of its own."""
        return []
