"""The chunked loss is the loss; GenMD4's is MD4's at the start, and learns."""

import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from unmask.core import (
    Cosine,
    ExactK,
    Process,
    Streams,
    TokenExactK,
    TokenPolynomial,
    TokenSteps,
    TokenTime,
    estimate_nelbo,
    paired,
    stratified,
    uniform_grid,
)
from unmask.evaluation import loss as loss_module
from unmask.evaluation.loss import masked_loss, nelbo_in_chunks
from unmask.networks import Conditioning, Transformer, TransformerConfig
from unmask.training import GenMD4Config, MD4Config
from unmask.training.genmd4 import LearnedWeights

V = 13
W = torch.linspace(0.5, 2.5, V, dtype=torch.float64).requires_grad_()
ESTIMATORS = {
    "exact-k": ExactK(Process(Cosine(), V), paired),
    "GenMD4 exact-k": TokenExactK(Process(TokenPolynomial(W.detach()), V), paired),
    "GenMD4": TokenTime(Process(TokenPolynomial(W), V)),
    "GenMD4 steps": TokenSteps(Process(TokenPolynomial(W), V), uniform_grid(10)),
}


def network(seed=0, tied=False):
    torch.manual_seed(seed)
    time = Conditioning(time=True)
    net = Transformer(TransformerConfig(V, layers=1, heads=2, width=16, tied=tied, conditioning=time))
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return net.double()


@pytest.fixture
def large_vocabulary(monkeypatch):
    """Logits at the masked positions only, as if there were too many for all."""
    monkeypatch.setattr(loss_module, "_DENSE", 0)


@pytest.fixture(params=["everywhere", "where masked"])
def logits(request):
    """Both ways to choose the positions with logits."""
    if request.param == "where masked":
        request.getfixturevalue("large_vocabulary")


@pytest.mark.usefixtures("logits")
@pytest.mark.parametrize("estimator", ESTIMATORS.values(), ids=ESTIMATORS.keys())
@pytest.mark.parametrize(("chunk", "tied"), [(None, False), (1, False), (7, False), (7, True), (10_000, True)])
def test_chunks_change_neither_value_nor_gradient(estimator, chunk, tied):
    """A tied table has gradients from both of its ends."""
    net = network(tied=tied)
    x_0 = (Streams(0, 6).uniform(20) * V).long()
    draw = estimator.draw(x_0, Streams(1, 6))
    features = net.features(estimator.process.hide(x_0, draw.mask), draw.t.double())
    whole = estimator.nelbo(net.head(features[draw.mask]), x_0, draw).total
    learned = (W,) if isinstance(estimator, (TokenTime, TokenSteps)) else ()
    loss = masked_loss(net, features, x_0, draw, estimator, learned=learned, chunk=chunk)
    torch.testing.assert_close(loss.nelbo.total, whole)
    torch.testing.assert_close(loss.total, whole.sum())
    wanted = [*net.parameters(), *learned]
    expected = torch.autograd.grad(3 * whole.sum(), wanted, retain_graph=True)
    for a, b in zip(torch.autograd.grad(3 * loss.total, wanted), expected, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.usefixtures("large_vocabulary")
def test_logits_of_all_rows_never_exist_together():
    """Peak size of any tensor with a vocabulary axis is one chunk, forward and backward."""
    net, estimator = network(), ESTIMATORS["exact-k"]
    x_0 = (Streams(0, 6).uniform(20) * V).long()
    draw = estimator.draw(x_0, Streams(1, 6))
    sizes = []
    net.output.register_forward_hook(lambda module, inputs, output: sizes.append(len(output)))  # noqa: ARG005
    features = net.features(estimator.process.hide(x_0, draw.mask), draw.t.double())
    masked_loss(net, features, x_0, draw, estimator, chunk=10).total.backward()
    assert max(sizes) == 10
    assert sum(sizes) == 7 * 10  # 63 hidden positions, each once: their gradients are taken while they exist


@pytest.mark.usefixtures("logits")
def test_nothing_masked_costs_nothing():
    net, estimator = network(), ESTIMATORS["exact-k"]
    x_0 = torch.zeros(2, 5, dtype=torch.int64)
    draw = estimator.draw(x_0, Streams(0, 2), valid=torch.zeros(2, 5, dtype=torch.bool))
    features = net.features(x_0, draw.t.double())
    loss = masked_loss(net, features, x_0, draw, estimator)
    assert loss.nelbo.total.tolist() == [0, 0]
    assert loss.total.item() == 0
    loss.total.backward()


@pytest.mark.usefixtures("logits")
@pytest.mark.parametrize("anything", [math.inf, -math.inf, math.nan, 1e300])
@pytest.mark.parametrize("estimator", ESTIMATORS.values(), ids=ESTIMATORS.keys())
def test_visible_positions_may_hold_anything(estimator, anything):
    """As where a network says for certain what may not come again."""
    bare = SimpleNamespace(vocab_size=V, head=lambda logits: logits, head_parameters=list)
    x_0 = (Streams(0, 6).uniform(20) * V).long()
    draw, logits = estimator.draw(x_0, Streams(1, 6)), Streams(2, 6).uniform(20, V)
    found = []
    for visible in (0.0, anything):
        features = logits.where(draw.mask[..., None], visible).requires_grad_()
        loss = masked_loss(bare, features, x_0, draw, estimator)
        found.append((loss.nelbo.total, *torch.autograd.grad(loss.total, features)))
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b)


def test_learned_weights_start_at_one_and_stay_in_bounds():
    weights = LearnedWeights(5)
    torch.testing.assert_close(weights(), torch.ones(5, dtype=torch.float64), rtol=1e-6, atol=1e-6)
    with torch.no_grad():
        weights.rho.copy_(torch.tensor([-50.0, -1.0, 0.0, 3.0, 50.0]))
    assert weights().min() >= 0.2
    assert weights().max() <= 5.0


def test_learned_weights_come_back_from_their_bounds():
    """At a bound or beyond, a gradient that leads back passes and one that leads away does not."""
    weights = LearnedWeights(4)
    with torch.no_grad():
        weights.rho.copy_(torch.tensor([0.1, 0.1, 6.0, 6.0]).expm1().log())
    wanted = torch.tensor([1.0, -1.0, 1.0, -1.0], dtype=torch.float64)  # larger, smaller, larger, smaller
    (-wanted * weights()).sum().backward()
    assert (weights.rho.grad != 0).tolist() == [True, False, False, True]
    for initial in (0.2, 5.0):
        weights = LearnedWeights(1, initial)
        (weights() * (1 if initial > 1 else -1)).sum().backward()
        assert weights.rho.grad.item() != 0


@pytest.mark.parametrize(("masks", "time"), [("independent", True), ("exact-k", False)])
def test_genmd4_trains_network_and_weights_together(masks, time):
    """Token 0 is always where it must be (even places); 1 and 2 are coin flips at odd places.

    A network that knows this pays only for the coins, in any order: the bound is flat in w and w stays bounded.
    Before it knows, the gradient of w is not zero: the surrogate moves w, and the loss falls to N/2 log 2.
    """
    torch.manual_seed(0)
    seen = Conditioning(time=time)
    net = Transformer(TransformerConfig(3, layers=1, heads=2, width=16, positions=8, conditioning=seen))
    method = GenMD4Config(masks=masks).build(net)
    optimizer = torch.optim.Adam(method.parameters(), lr=1e-2)
    x_0 = torch.zeros(128, 8, dtype=torch.int64)
    for step in range(200):
        x_0[:, 1::2] = 1 + (Streams(9, 128, step=step).uniform(4) > 0.5).long()
        loss = method(x_0, Streams(1, 128, step=step)) / 128
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert not torch.allclose(method.weights(), torch.ones(3, dtype=torch.float64), atol=1e-2)
    final = torch.stack([method(x_0, Streams(2, 128, step=s)) / 128 for s in range(40)]).mean()
    assert final.item() == pytest.approx(4 * 0.6931, rel=0.08)


def test_the_smallest_exponent_trains():
    """Its times come so near to 0 that rates w/t leave float32: what is visible there must not make the loss a NaN."""
    net = network().float()
    method = GenMD4Config(masks="independent").build(net)
    with torch.no_grad():
        method.weights.rho[0] = -9.0  # w = 0.2, where it is held
    for step in range(8):  # without care the seventh would fail
        x_0 = (Streams(7, 512, step=step).uniform(16) * V).long()
        loss = method(x_0, Streams(0, 512, step=step))
        method.zero_grad()
        loss.backward()
        assert loss.isfinite()
        assert all(p.grad is None or p.grad.isfinite().all() for p in method.parameters())


@pytest.mark.usefixtures("logits")
def test_bounds_in_chunks_are_the_bounds():
    net, estimator = network(), ESTIMATORS["exact-k"]
    x_0 = (Streams(0, 6).uniform(20) * V).long()
    whole = estimate_nelbo(net, x_0, estimator, draws=4, repeats=2)
    chunks = estimate_nelbo(net, x_0, estimator, draws=4, repeats=2, nelbo_fn=nelbo_in_chunks)
    torch.testing.assert_close(chunks.mean, whole.mean)


def expected_loss(config, draws=6000):
    """The mean training loss of a network that is not trained, over many draws."""
    method = config.build(network())
    x_0 = torch.tensor([0, 3, 1, 7, 12]).expand(draws, -1)
    with torch.no_grad():
        losses = torch.stack([method(x_0[:20], Streams(4, 20, step=step)) / 20 for step in range(draws // 20)])
    return losses.mean().item(), (losses.std() / len(losses) ** 0.5).item()


def test_the_law_of_k_and_the_weighting_are_independent():
    """Importance weights leave the bound as it is for every law of k.

    Differences of means over 300 batches are compared at 5 standard errors: false alarm 3e-6 for the five of them.
    """
    bound, error = expected_loss(MD4Config())
    for law in ("uniform", "power", "bell"):
        mean, other = expected_loss(MD4Config(k_law=law, weighting="importance"))
        assert abs(mean - bound) < 5 * (error**2 + other**2) ** 0.5
    for masks in ({"masks": "independent", "shift": 1e-4}, {"masks": "independent", "schedule": "cosine"}):
        mean, other = expected_loss(MD4Config(**masks))
        assert abs(mean - bound) < 5 * (error**2 + other**2) ** 0.5 + 1e-2


EXPONENTS = ((0, 4.0), (12, 0.6))


def test_given_exponents_train_on_their_bound():
    """Whatever the law of k and however masks are drawn, weighed by importance: the bound of that process.

    Means over 300 batches are compared at 5 standard errors: false alarm 6e-7 for each.
    """
    config = MD4Config(exponents=EXPONENTS)
    method, x_0 = config.build(network()), torch.tensor([[0, 3, 1, 7, 12]])
    assert method.process.schedule.w[[0, 1, 12]].tolist() == [4.0, 1.0, 0.6]
    truth = estimate_nelbo(method.network, x_0, TokenTime(method.process), draws=64, repeats=200)
    for other in (
        config,
        replace(config, k_law="power", weighting="importance"),
        replace(config, masks="independent"),
    ):
        mean, error = expected_loss(other)
        assert abs(mean - truth.mean.item()) < 5 * (error**2 + truth.standard_error.item() ** 2) ** 0.5


@pytest.mark.parametrize("law", ["uniform", "power", "bell"])
def test_given_exponents_with_plain_weights_charge_cross_entropy(law):
    """(2k/W_M) Σ_masked −log μ for masks of the race: an untrained network pays log V for each."""
    net = Transformer(TransformerConfig(V, layers=1, heads=2, width=16))
    method = MD4Config(exponents=EXPONENTS, weighting="ce", k_law=law).build(net)
    x_0 = (Streams(0, 8).uniform(20) * V).long()
    draw = method._training(paired).draw(x_0, Streams(1, 8))
    k, total = draw.mask.sum(1), (method.w[x_0] * draw.mask).sum(1)
    torch.testing.assert_close(draw.weight, 2 * k / total)
    paid = math.log(V) * (k * draw.weight).sum().item()
    assert method(x_0, Streams(1, 8)).item() == pytest.approx(paid, rel=1e-6)


@pytest.mark.parametrize("masks", ["exact-k", "independent"])
def test_plain_weights_of_a_race_have_the_best_denoiser_of_the_bound(masks):
    """One token, two values equally likely, w = 4 and 1. The best μ is ∝ the mean weight at each value, p_v E[weight];
    whoever samples multiplies by w_v: only a mean weight ∝ 1/w_v gives the data's law back.

    Independent masks have a weight of mean ∫ t^w dt/t = 1/w, compared at 6 standard errors of 20,000 draws.
    """
    method = MD4Config(exponents=((0, 4.0),), weighting="ce", masks=masks).build(network())
    mean, error = [], []
    for token in (0, 1):
        draw = method._training(stratified).draw(torch.full((20_000, 1), token), Streams(token, 20_000))
        charged = (draw.weight * draw.mask[:, 0]).double()
        mean.append(charged.mean().item())
        error.append(charged.std().item() / 20_000**0.5)
    assert abs(4 * mean[0] - mean[1]) <= 6 * (16 * error[0] ** 2 + error[1] ** 2) ** 0.5 + 1e-9


def test_tokens_with_a_larger_exponent_appear_first():
    """Of two tokens with w = 9 and 1 the first appears first in 9 of 10 races, so 1 is the last to be hidden.

    Masked shares of 20,000 draws have a standard error of 0.0025; they are compared at 6.
    """
    method = MD4Config(exponents=((0, 9.0),)).build(network())
    mask = method._training(stratified).draw(torch.tensor([0, 1]).expand(20_000, -1), Streams(0, 20_000)).mask
    assert mask.double().mean(0).tolist() == pytest.approx([0.55, 0.95], abs=0.015)


def weighed(**config):
    """Masked counts and weights of 64 rows of 20 tokens."""
    method = MD4Config(**config).build(network())
    draw = method._training(paired).draw(torch.zeros(64, 20, dtype=torch.int64), Streams(0, 64))
    return draw.mask.sum(1), draw.weight


@pytest.mark.parametrize("law", ["uniform", "power", "bell"])
def test_weights(law):
    """elbo: N/k whatever the law of k; importance: 1/(k q(k)); ce: all the same."""
    k, weight = weighed(k_law=law)
    torch.testing.assert_close(weight, 20 / k.double())
    k, weight = weighed(k_law=law, weighting="importance")
    q = MD4Config(k_law=law).law().prob(k, torch.full((64,), 20))
    torch.testing.assert_close(weight, 1 / (k * q))
    _, weight = weighed(k_law=law, weighting="ce")
    assert set(weight.tolist()) == {2.0}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MD4Config(schedule="sine"), "unknown schedule: got sine"),
        (lambda: MD4Config(weighting="fair"), "unknown weighting: got fair, allowed: elbo, importance, ce"),
        (lambda: MD4Config(k_law="flat"), "unknown k_law: got flat, allowed: uniform, power, bell"),
        (lambda: MD4Config(masks="all"), "unknown masking: got all"),
        (lambda: MD4Config(masks="independent", k_law="bell"), "k_law applies to exact-k masks only: got k_law bell"),
        (lambda: MD4Config(k_law="bell", k_bell=(0.0, 1.0)), "the parameters of the bell are out of range"),
        (lambda: MD4Config(exponents=((0, 2.0), (0, 3.0))), "a token has two exponents"),
        (lambda: MD4Config(exponents=((0, 0.0),)), "an exponent is out of range: got 0.0"),
        (
            lambda: MD4Config(exponents=((0, 0.05),), masks="independent"),
            "got 0.05, allowed: 0.1..1e.06 with independent",
        ),
        (lambda: MD4Config(exponents=((0, 2.0),), schedule="cosine"), "exponents do not fit the schedule: got cosine"),
        (lambda: MD4Config(exponents=((0, 2.0),), shift=1e-4), "exponents do not fit the schedule: got linear, shift"),
        (
            lambda: MD4Config(exponents=((13, 2.0),)).build(network()),
            "an exponent is given for an unknown token: got tokens 13..13, allowed: 0..12",
        ),
        (lambda: GenMD4Config(initial=9.0), "the initial exponent is out of range"),
        (lambda: GenMD4Config(masks="some"), "unknown masking: got some, allowed: exact-k, independent"),
    ],
)
def test_mistakes(make, message):
    with pytest.raises(ValueError, match=message):
        make()
