"""Any-order autoregression (ARDM, Hoogeboom et al., 2022): a random order, cut at a random position.

−log p(x) ≤ E_σ Σ_i −log μ(x_σ(i) | x_σ(<i)); with i drawn at random and all tokens from the i-th on predicted at once,
this is (N/k) Σ over the k masked tokens, k uniform: the exact-k form of MD4's bound, without a time.
"""

from dataclasses import dataclass

from ..core import ExactK, Linear, Process, stratified
from ..networks import Network
from ..training import EstimatorMethod, Needs


@dataclass(frozen=True)
class AOARMConfig(Needs):
    """Any-order autoregressive model: equivalent to MD4, with a position in a random order instead of a time."""

    def build(self, network: Network) -> EstimatorMethod:
        """Build the method for a network."""
        process = Process(Linear(), network.vocab_size)
        return EstimatorMethod(network, ExactK(process, stratified))
