"""What `GenMD4` learns is the gradient of its bound: the method itself, against quadrature over time and all masks."""

import math

import pytest
import torch
from torch import nn

from unmask.core import Process, Streams, TokenPolynomial, generalized_nelbo
from unmask.core.exact import exact_nelbo, token_continuous_time
from unmask.networks import Network
from unmask.training import GenMD4Config

W = torch.tensor([0.6, 1.0, 2.7], dtype=torch.float64)
X_0 = torch.tensor([2, 0, 1])
Z = 6.5  # two-sided 3.3e-9 per comparison, by Student's law of 100 batches


class Few(Network):
    """Nine parameters that look at the tokens around and, where it is asked for, at the time."""

    vocab_size = 3

    def __init__(self, sees_time):
        super().__init__()
        self.sees_time = sees_time
        weight = torch.randn(3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
        self.weight = nn.Parameter(weight)

    def parts(self):
        return []

    def features(self, x_t, t=None, label=None, dropout=()):
        del label, dropout
        shown = nn.functional.one_hot(x_t, 4).double()
        found = shown.cumsum(1)[..., :3] - 0.7 * shown.flip(1).cumsum(1).flip(1)[..., 1:] + 0.3
        return found + torch.sin(3 * t)[:, None, None] * torch.arange(3) if self.sees_time else found

    def head(self, features):
        return features @ self.weight

    def head_parameters(self):
        return [self.weight]


def built(masks, *, sees_time, w=W):
    """The method with these exponents."""
    method = GenMD4Config(masks=masks).build(Few(sees_time))
    with torch.no_grad():
        method.weights.rho.copy_(w.expm1().log())
    return method


def flat(loss, method):
    """The loss and its gradients, of the exponents' ρ and of the network's weights [13]."""
    gradients = torch.autograd.grad(loss, [method.weights.rho, method.network.weight])
    return torch.cat([loss.detach()[None].double(), *(g.double().flatten() for g in gradients)])


def enumerated(method, after):
    """The same of the bound of X_0 with more tokens after it that do not count, by quadrature over time and all masks,
    whose law is differentiated too.
    """
    process = Process(TokenPolynomial(method.weights()), 3)

    def denoiser(x_t, t):
        return method.network(torch.cat([x_t, after.expand(len(x_t), -1)], dim=1), t)[:, :3]

    def objective(logits, x, draw):
        return generalized_nelbo(logits, x, draw, process)

    draw = token_continuous_time(process, X_0, nodes=320)
    return flat(exact_nelbo(denoiser, X_0, draw, process, objective).total, method)


@pytest.mark.parametrize(
    ("masks", "sees_time"),
    [("independent", True), ("exact-k", True), ("exact-k", False)],
    ids=["independent", "exact-k", "exact-k without time"],
)
@pytest.mark.parametrize("padding", [0, 2])
def test_the_gradient_is_that_of_the_bound(masks, sees_time, padding):
    """In the mean of 100 batches of 500 pairs, also of rows with padding: 13 numbers (false alarm 5e-8)."""
    method, rows = built(masks, sees_time=sees_time), 500
    after = X_0[:padding]
    x_0 = torch.cat([X_0, after]).expand(rows, -1)
    valid = (torch.arange(x_0.shape[1]) < 3).expand_as(x_0) if padding else None
    batches = (method(x_0, Streams(7, rows, step=i), valid=valid) / rows for i in range(100))
    found = torch.stack([flat(loss, method) for loss in batches])
    z = (found.mean(0) - enumerated(method, after)) / (found.std(0) / len(found) ** 0.5)
    assert z.abs().max() < Z


def test_each_sample_is_the_others_baseline():
    """With equal exponents a network that knows nothing pays N log V under every mask. Two equal losses leave nothing
    to the law of the masks, and of x_0 = (v, …, v) a bound that follows without a draw:

        Σ_k (1/w_v k) k [w_v log V + w̄ − w_v],   whose gradient at w = 1 is N (1/V − 1{v}).
    """
    method = built("exact-k", sees_time=True, w=torch.ones(3, dtype=torch.float64))
    with torch.no_grad():
        method.network.weight.zero_()
    loss = method(torch.full((8, 5), 1), Streams(0, 8))
    assert loss.item() == pytest.approx(8 * 5 * math.log(3), rel=1e-6)
    loss.backward()
    slope = 1 - math.exp(-1)  # of softplus where it is 1
    by_hand = 8 * 5 * (1 / 3 - torch.tensor([0.0, 1.0, 0.0])) * slope
    torch.testing.assert_close(method.weights.rho.grad, by_hand, rtol=1e-5, atol=1e-5)


def test_without_time_only_ratios_of_exponents_are_learned():
    """Who rings first depends on nothing else: in every draw the gradient along w is 0, w_v ∂_v summed over v."""
    method = built("exact-k", sees_time=False)
    w, softplus = method.weights().detach(), torch.sigmoid(method.weights.rho.detach().double())
    method(X_0.expand(8, -1), Streams(0, 8)).backward()
    along = w * method.weights.rho.grad / softplus
    assert along.abs().max() > 1
    assert along.sum().abs() < 1e-5 * along.abs().max()
