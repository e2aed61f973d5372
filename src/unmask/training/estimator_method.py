"""A method that is nothing but the way it draws and charges: an estimator to train by, and one to measure by."""

from torch import Tensor

from ..core import Estimator, Streams, low_variance
from ..evaluation.likelihood import DEFAULT, Fit, Taken
from ..mistakes import require
from ..networks import Network
from .method import Method


class EstimatorMethod(Method):
    """Trains a network on an estimator's draws."""

    def __init__(
        self, network: Network, training: Estimator, measuring: Estimator | None = None, recordable: bool = True
    ):
        """measuring: None for MD4's bound. recordable: whether a draw is told by its times, masks and weights alone, so
        that it can be replayed.
        """
        super().__init__(network)
        self._training, self._recordable = training, recordable
        self._measuring = measuring or low_variance(training.process)

    def forward(
        self,
        x_0: Tensor,
        streams: Streams,
        *,
        valid: Tensor | None = None,
        label: Tensor | None = None,
        strata: int | None = None,
    ) -> Tensor:
        draw = self._training.draw(x_0, streams, valid=valid, strata=strata)
        return self._total(x_0, draw, self._training, self.network.draw_dropout(streams), label)

    def estimator(self) -> Estimator:
        return self._measuring

    def record(self, accumulates: bool) -> None:
        if self._recordable:
            super().record(accumulates)


class OwnBound(EstimatorMethod):
    """One that is not bounded in MD4's way: the bound it has stands where the default is asked for, and no other can be
    asked for.
    """

    def bound(self, name: str = DEFAULT, steps: Taken | None = None, fit: Fit | None = None) -> Estimator:
        del fit
        what, allowed = "this method has a bound of its own", "the default, which stands for it"
        require(name == DEFAULT, what, got=f"the estimator {name}", allowed=allowed, do="leave the estimator out")
        require(steps is None, what, got="the steps of a sampler", allowed=allowed, do="leave the steps out")
        return self.estimator()
