"""Recorded features are the network's. Recording needs a GPU; without one only its rules can be tested."""

import pytest
import torch

from unmask.networks import Conditioning, Replayed, TransformerConfig
from unmask.networks.replay import filled_up

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="CUDA graphs need a GPU")
V = 11


def network(device="cpu"):
    torch.manual_seed(0)
    built = TransformerConfig(V, 2, 2, 32, mlp="relu2", conditioning=Conditioning(time=True, classes=3)).build()
    with torch.no_grad():
        for parameter in built.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    return built.to(device).eval()


def inputs(rows, length=12, device="cpu"):
    generator = torch.Generator().manual_seed(rows)
    x = torch.randint(V + 1, (rows, length), generator=generator)
    t, label = torch.rand(rows, generator=generator), torch.randint(4, (rows,), generator=generator)
    return [i.to(device) for i in (x, t, label)]


def test_a_few_sizes_serve_all():
    sizes = [filled_up(rows) for rows in range(1, 513)]
    assert all(rows <= size <= rows * 9 / 8 for rows, size in enumerate(sizes, 1))
    assert [filled_up(size) for size in sizes] == sizes
    assert len(set(sizes)) == 16 + 5 * 8


def test_on_a_cpu_it_is_the_network():
    net = network()
    with torch.no_grad():
        assert torch.equal(Replayed(net).features(*inputs(3)), net.features(*inputs(3)))


@needs_gpu
@pytest.mark.parametrize("autocast", [False, True])
def test_the_recording_is_the_network(autocast):
    """Any number of rows, sizes in turn, with labels and without, after the weights have changed."""
    net = network("cuda")
    replayed = Replayed(net)
    with torch.no_grad(), torch.autocast("cuda", torch.bfloat16, enabled=autocast):
        for turn in range(5):
            for rows in (1, 3, 17, 18, 13):
                x, t, label = inputs(rows, device="cuda")
                for given in ((x, t, label), (x, t, None)):
                    torch.testing.assert_close(replayed.features(*given), net.features(*given), rtol=2e-2, atol=2e-2)
            if turn == 3:
                for parameter in net.parameters():
                    parameter.mul_(0.7)
                torch.clear_autocast_cache()  # or the plain network goes on with the old ones
    assert len(replayed._recordings) == 2 * 4


@needs_gpu
def test_with_gradients_nothing_is_recorded():
    net = network("cuda")
    replayed = Replayed(net)
    for _ in range(4):
        assert replayed.features(*inputs(2, device="cuda")).requires_grad
    assert not replayed._recordings
