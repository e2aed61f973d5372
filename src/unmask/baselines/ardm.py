"""Any-order autoregression (ARDM, Hoogeboom et al., 2022): a random order, cut at a random place.

−log p(x) ≤ E_σ Σ_i −log μ(x_σ(i) | x_σ(<i)); with the i-th place drawn and all that follow predicted at once that is
(N/k) Σ over the k hidden tokens, k uniform: the exact-k form of MD4's bound, without a time.
"""

from dataclasses import dataclass

from ..core import ExactK, Linear, Process, stratified
from ..networks import Network
from ..training import EstimatorMethod, Needs


@dataclass(frozen=True)
class AOARMConfig(Needs):
    """Any-order autoregressive model: MD4 by another way, with a place in a random order instead of a time."""

    def build(self, network: Network) -> EstimatorMethod:
        """The method around a network."""
        process = Process(Linear(), network.vocab_size)
        return EstimatorMethod(network, ExactK(process, stratified))
