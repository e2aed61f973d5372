"""A recorded loss trains as the plain one does. Recording needs a GPU; without one only its rules can be tested."""

import dataclasses

import pytest
import torch

from unmask.core import Streams, trusted
from unmask.networks import TransformerConfig
from unmask.training import MD4Config
from unmask.training.graph import Recorded

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="CUDA graphs need a GPU")
V, RATE = 11, 1e-3


def curve(record, accumulates=False, vocab_size=V):
    """Losses and the last gradients of eight steps of gradient descent."""
    torch.manual_seed(0)
    network = TransformerConfig(vocab_size, 2, 2, 32, mlp="relu2").build()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    method = MD4Config().build(network.cuda())
    if record:
        method.record(accumulates)
    losses = []
    for step in range(8):
        method.zero_grad(set_to_none=True)
        for part in range(2 if accumulates else 1):
            x_0 = (Streams(part, 6, step, "cuda").uniform(24) * 3).long()
            with trusted():
                loss = method(x_0, Streams(part, 6, step, "cuda")) / 6
            loss.backward()
            losses.append(loss.item())
            del loss  # its graph would tie the parameters to the stream of the plain calls
        with torch.no_grad():
            for parameter in method.parameters():
                if parameter.grad is not None:
                    parameter -= RATE * parameter.grad
    return losses, [p.grad.clone() for p in method.parameters() if p.grad is not None]


@needs_gpu
@pytest.mark.parametrize("accumulates", [False, True])
@pytest.mark.parametrize("vocab_size", [V, 600], ids=["dense", "masked"])
def test_the_recording_is_the_computation(accumulates, vocab_size):
    plain, recorded = curve(False, accumulates, vocab_size), curve(True, accumulates, vocab_size)
    assert recorded[0] == pytest.approx(plain[0], rel=1e-4)
    assert plain[0][-1] < plain[0][0]
    errors = [((a - b).norm() / b.norm()).item() for a, b in zip(recorded[1], plain[1], strict=True)]
    assert max(errors) <= 1e-3, errors


def test_the_first_calls_are_plain():
    weight = torch.ones(3, requires_grad=True)
    recorded = Recorded(lambda x: (weight * x).sum(), [weight], accumulates=True)
    for call in range(3):
        recorded(torch.full((3,), float(call))).backward()
    assert weight.grad.tolist() == [3.0] * 3


def test_draws_without_a_constant_shape_are_not_recorded():
    """Independent masks over a large vocabulary: each batch has another number of masked positions."""
    network = TransformerConfig(600, 1, 2, 16).build()
    method = dataclasses.replace(MD4Config(), masks="independent").build(network)
    method.record(accumulates=False)
    for step in range(6):
        x_0 = (Streams(0, 4, step).uniform(8) * 600).long()
        assert torch.isfinite(method(x_0, Streams(0, 4, step)))
