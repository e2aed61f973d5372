"""Batched calls give the same results as single calls."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from unmask.networks import Conditioning, TransformerConfig, UNetConfig
from unmask.serve.batcher import Batcher, _Call, grouped

V = 11


def noisy(config):
    torch.manual_seed(0)
    network = config.build()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return network.requires_grad_(False)


def at_once(batcher, ask, inputs):
    """All are members before the first has its turn."""
    with ThreadPoolExecutor(len(inputs)) as pool:
        with batcher._turn:
            found = [pool.submit(ask, given) for given in inputs]
            while batcher._members < len(inputs):
                time.sleep(0.001)
        return [future.result(timeout=30) for future in found]


NETWORKS = {
    "text": (TransformerConfig(V, 2, 2, 16), [(3, 8), (1, 8), (2, 7), (1, 2)], False),
    "time and classes": (TransformerConfig(V, 2, 2, 16, conditioning=Conditioning(True, 3)), [(2, 9), (1, 8)], True),
    "rows of places": (TransformerConfig(V, 1, 2, 16, positions=8), [(2, 8), (1, 8), (1, 6)], False),
    "pictures": (UNetConfig(V, 1, 1, 8, 4), [(2, 4, 4), (1, 4, 4)], False),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_together_as_alone(name):
    """For rows of any lengths, each caller gets the features of its own rows."""
    config, shapes, classes = NETWORKS[name]
    network, sizes = noisy(config), []
    batcher = Batcher(network, torch.device("cpu"), observe=sizes.append)
    inputs = [
        (
            torch.randint(0, V + 1, shape),
            torch.rand(shape[0]),
            torch.randint(0, 3, (shape[0],)) if classes else None,
        )
        for shape in shapes
    ]

    def ask(given):
        with batcher.member():
            features = batcher.features(*given)
            return features, batcher.head(features.flatten(0, -2))

    found = at_once(batcher, ask, inputs)
    batcher.close()
    for (features, logits), given in zip(found, inputs, strict=True):
        expected = network.features(*given)
        torch.testing.assert_close(features, expected, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(logits, network.head(expected).flatten(0, -2), rtol=1e-4, atol=1e-5)
    assert len(sizes) < len(inputs)
    assert sum(sizes) == sum(shape[0] for shape in shapes)


def test_a_step_waits_for_all_and_no_longer():
    """Two members share one call; when one has left, the other does not wait."""
    network, sizes = noisy(TransformerConfig(V, 1, 2, 16)), []
    batcher = Batcher(network, torch.device("cpu"), observe=sizes.append)

    def ask(times):
        with batcher.member():
            for _ in range(times):
                batcher.features(torch.zeros(1, 4, dtype=torch.long), torch.ones(1))

    at_once(batcher, ask, (2, 5))
    batcher.close()
    assert sizes == [2, 2, 1, 1, 1]


def test_a_mistake_reaches_those_who_asked():
    batcher = Batcher(noisy(TransformerConfig(V, 1, 2, 16)), torch.device("cpu"))
    with batcher.member(), pytest.raises(IndexError):
        batcher.features(torch.full((1, 4), 99), torch.ones(1))
    with batcher.member():
        assert batcher.features(torch.zeros(1, 4, dtype=torch.long), torch.ones(1)).shape == (1, 4, 16)
    batcher.close()


def test_groups_waste_little_and_are_not_too_large():
    calls = [_Call(torch.zeros(rows, length), torch.ones(rows), None) for rows, length in [(5, 16), (1, 100), (4, 90)]]
    calls += [_Call(torch.zeros(1, 80), torch.ones(1), torch.zeros(1))]
    found = [[tuple(call.x.shape) for call in group] for group in grouped(calls, 8, ragged=True)]
    assert sorted(found) == [[(1, 80)], [(1, 100), (4, 90)], [(5, 16)]]
    alone = [[tuple(call.x.shape) for call in group] for group in grouped(calls, 4, ragged=False)]
    assert len(alone) == 4
