"""Block diffusion: one block is MD4, blocks of one token are the chain rule, and no block sees what comes later."""

from itertools import pairwise

import numpy as np
import pytest
import torch

from tests.small_models import trained
from unmask.baselines import BlockConfig, InBlocks
from unmask.core import ContinuousTime, ExactK, Linear, Process, Streams, estimate_nelbo, uniform_grid
from unmask.data import Plan, prepare
from unmask.evaluation.loss import nelbo_in_chunks
from unmask.networks import TransformerConfig
from unmask.run import load
from unmask.sampling import BLOCKS, Predictor, sample, trajectory

V, N = 5, 8
PROCESS = Process(Linear(), V)
X = torch.randint(V, (6, N), generator=torch.Generator().manual_seed(0))


def network(block):
    """The same weights whatever the blocks are."""
    torch.manual_seed(0)
    built = TransformerConfig(V, 2, 2, 16, block=block).build()
    with torch.no_grad():
        for parameter in built.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return built.eval()


def bound(block, draws=64, repeats=8):
    return estimate_nelbo(
        network(block), X, InBlocks(PROCESS, block), draws=draws, repeats=repeats, nelbo_fn=nelbo_in_chunks
    )


def chain(block):
    """−log p from left to right, a block at a time by brute force over what is shown: blocks of one token."""
    net, total = network(block), torch.zeros(len(X), dtype=torch.float64)
    for place in range(N):
        shown = torch.where(torch.arange(N) < place, X, V)
        with torch.no_grad():
            log_mu = net(shown)[:, place].double().log_softmax(-1)
        total -= log_mu.gather(1, X[:, place, None])[:, 0]
    return total


def test_blocks_of_one_token_are_the_chain_rule():
    found = bound(1, draws=1, repeats=2)
    assert InBlocks(PROCESS, 1).exact
    assert found.standard_error.max() == 0
    torch.testing.assert_close(found.mean, chain(1), rtol=1e-5, atol=1e-5)


def test_one_block_is_md4():
    """The masked copy sees nothing of the clean one: the plain network's predictions, and MD4's bound."""
    whole, plain = network(N), network(0)
    masked = torch.where(torch.rand(X.shape, generator=torch.Generator().manual_seed(1)) < 0.5, V, X)
    with torch.no_grad():
        pair = whole.features(torch.stack([X, masked], 1))
        torch.testing.assert_close(pair, plain.features(masked), rtol=1e-4, atol=1e-5)
    ours = bound(N)
    md4 = estimate_nelbo(plain, X, ExactK(PROCESS), draws=64, repeats=8, nelbo_fn=nelbo_in_chunks)
    apart = (ours.mean - md4.mean).abs() / (ours.standard_error**2 + md4.standard_error**2).sqrt()
    assert apart.max() < 8  # standard errors of 8 groups: t with 7 degrees of freedom


def test_larger_blocks_of_a_random_network_are_bounds_of_the_same_kind():
    assert bound(2).mean.shape == (len(X),)
    with pytest.raises(ValueError, match="not a whole number of blocks"):
        bound(3)


def test_a_block_does_not_see_what_comes_later():
    """Neither in the pair nor in the single copy that sampling uses; and the two say the same."""
    net, later = network(2), X.clone()
    later[:, 4:] = (later[:, 4:] + 1) % V
    masked = X.clone()
    masked[:, 2:4] = V
    with torch.no_grad():
        a, b = (net.features(torch.stack([x, masked], 1))[:, 2:4] for x in (X, later))
        assert torch.equal(a, b)
        alone = torch.where(torch.arange(N) < 4, masked, V)
        torch.testing.assert_close(net.features(alone)[:, 2:4], a, rtol=1e-4, atol=1e-5)


def test_blocks_are_filled_one_after_the_other():
    predict = Predictor(network(4), V, family=BLOCKS)
    x = torch.full((3, N), V)
    x[:, :2] = 1
    found = sample(predict, PROCESS, x, uniform_grid(4), Streams(0, 3), "block-wise").tokens
    assert not (found == V).any()
    assert (found[:, :2] == 1).all()
    with pytest.raises(ValueError, match="ancestral is not defined"):
        sample(predict, PROCESS, x, uniform_grid(4), Streams(0, 3), "ancestral")


def test_it_needs_a_network_with_blocks():
    with pytest.raises(ValueError, match="does not read block by block"):
        BlockConfig().build(network(0))
    assert ContinuousTime(PROCESS).exact is False


def test_finished_blocks_are_read_once(monkeypatch):
    """Samples with what was read and without are the same; every pass is over one block."""
    net = network(2)
    x, found, read = torch.full((5, N), V), [], []
    real = net.read
    monkeypatch.setattr(net, "read", lambda block, *a: read.append(block.shape[1]) or real(block, *a))
    for cache in (True, False):
        predict = Predictor(net, V, cache=cache, family=BLOCKS)
        found.append(sample(predict, PROCESS, x, uniform_grid(3), Streams(4, 5), "block-wise").tokens)
    assert torch.equal(*found)
    assert set(read) == {2}
    assert len(read) <= 4 * 3 + 3  # each step of each block, and each finished block once


def test_rows_whose_places_mean_something(tmp_path):
    """Both copies have the places of the row; block by block the network says the same of them, and it trains."""
    torch.manual_seed(0)
    net = TransformerConfig(V, 2, 2, 16, block=4, positions=N).build().eval()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    masked = X.clone()
    masked[:, 4:] = V
    with torch.no_grad():
        pair, alone = net.features(torch.stack([X, masked], 1)), net.features(masked)
    torch.testing.assert_close(pair[:, 4:], alone[:, 4:], rtol=1e-4, atol=1e-5)
    np.save(tmp_path / "a.npy", np.random.default_rng(0).integers(0, V, (60, 16)))
    prepare(Plan(str(tmp_path / "a.npy")), tmp_path / "data")
    model = load(trained(tmp_path / "data", tmp_path / "run", method="block"), device="cpu")
    assert model.network.config.positions == 16
    assert model.sample_tokens(3, steps=4).tokens.max() < V


def test_a_block_is_finished_before_the_next_where_the_grid_ends_early():
    """What is left of it is drawn in one more step; with what was read and without it is the same."""
    net, x, found = network(2), torch.full((5, N), V), []
    for cache in (True, False):
        predict = Predictor(net, V, cache=cache, family=BLOCKS)
        frames = list(trajectory(predict, PROCESS, x, uniform_grid(4)[:-2], Streams(4, 5), "block-wise"))
        assert [frame.step for frame in frames] == list(range(len(frames)))
        for before, after in pairwise(frames):
            begun = (after.tokens != before.tokens).any(0).nonzero()[:, 0] // 2
            assert all((before.tokens[:, : 2 * int(block)] < V).all() for block in begun)
        found.append(frames[-1].tokens)
    assert torch.equal(*found)
    assert found[0].max() < V
