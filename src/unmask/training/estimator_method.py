"""Methods defined entirely by two estimators: one for training and one for measuring the bound."""

from torch import Tensor

from ..core import Estimator, Streams, low_variance
from ..evaluation.likelihood import DEFAULT, Fit, Taken
from ..mistakes import require
from ..networks import Network
from .method import Method


class EstimatorMethod(Method):
    """Trains a network on the draws of an estimator."""

    def __init__(
        self, network: Network, training: Estimator, measuring: Estimator | None = None, recordable: bool = True
    ):
        """measuring: None for MD4's bound. recordable: whether times, masks and weights determine a draw completely,
        so that the loss can be replayed as a CUDA graph.
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
    """A method with a bound of its own instead of MD4's: it is used when the default estimator is requested, and
    requests for any other estimator are refused.
    """

    def bound(self, name: str = DEFAULT, steps: Taken | None = None, fit: Fit | None = None) -> Estimator:
        del fit
        what, allowed = "this method has a bound of its own", "the default, which selects that bound"
        require(name == DEFAULT, what, got=f"the estimator {name}", allowed=allowed, do="omit the estimator")
        require(steps is None, what, got="the steps of a sampler", allowed=allowed, do="omit the steps")
        return self.estimator()
