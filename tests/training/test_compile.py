"""Compiled training: one graph, compiled once, and the numbers it had before.

The compiler's own backend needs a C++ compiler, which a machine need not have; what can go wrong on our side (breaks in
the graph, shapes or numbers that change, gradients) shows with `aot_eager`, which traces the same graphs and runs them.
"""

import dataclasses
import shutil

import pytest
import torch

from unmask.core import Streams, trusted
from unmask.networks import Conditioning, TransformerConfig, UNetConfig, UViTConfig
from unmask.run import RunConfig
from unmask.run.train import build_trainer
from unmask.training import GenMD4Config, MD4Config, TrainingConfig

V = 11
SEEING = Conditioning(time=True)
CASES = {
    "transformer": (TransformerConfig(V, 2, 2, 16, dropout=0.1), MD4Config(), (24,)),
    "transformer with time": (TransformerConfig(V, 2, 2, 16, conditioning=SEEING), MD4Config(), (24,)),
    "value residuals": (TransformerConfig(V, 3, 2, 16, value_residuals=True), MD4Config(), (24,)),
    "genmd4": (TransformerConfig(V, 1, 2, 16, conditioning=SEEING), GenMD4Config(), (24,)),
    "unet": (UNetConfig(V, 3, 1, 8, 4, dropout=0.1), MD4Config(k_law="bell", weighting="ce"), (4, 4, 3)),
    "uvit": (UViTConfig(V, 3, 1, 8, 4, layers=1, heads=2, transformer_width=16), MD4Config(), (4, 4, 3)),
}
needs_compiler = pytest.mark.skipif(not shutil.which("g++"), reason="no g++")
WAYS = [(name, "aot_eager", whole) for name in CASES for whole in (False, True)]
WAYS.append(pytest.param("transformer", "inductor", False, marks=needs_compiler))


def steps(config, method_config, shape, backend=None, whole=False):
    """Losses and gradients of three steps at the same weights, compiled or not."""
    torch.manual_seed(0)
    network = config.build()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    method = method_config.build(network)
    if backend:
        torch._dynamo.reset()
        method.compile_parts(whole, backend=backend)
    found = []
    for step in range(3):
        x_0 = (Streams(7, 6, step=step).uniform(*shape) * V).long()
        method.zero_grad()
        with trusted():
            loss = method(x_0, Streams(0, 6, step=step))
        loss.backward()
        found.append([loss.detach(), *(p.grad.clone() for p in method.parameters() if p.grad is not None)])
    return found


@pytest.mark.parametrize(("name", "backend", "whole"), WAYS)
def test_compiling_changes_nothing_but_rounding(name, backend, whole):
    plain = steps(*CASES[name])
    compiled = steps(*CASES[name], backend, whole)
    for a, b in zip(plain, compiled, strict=True):
        for x, y in zip(a, b, strict=True):
            torch.testing.assert_close(y, x, rtol=1e-3, atol=1e-4)


GRAPHS = {  # of the network by blocks: kinds of block; the loss is one more
    "transformer": 1,
    "transformer with time": 1,
    "value residuals": 2,  # the first layer, and those that mix its values
    "unet": 4,  # down, up, middle and the last layer
    "uvit": 4,  # down, up, the transformer's and the last layer
}


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("whole", [False, True], ids=["blocks", "whole"])
def test_each_graph_is_compiled_once(name, whole):
    """Masks, times, seeds and steps change, and there are many blocks: nothing is compiled a second time."""
    torch._dynamo.utils.counters.clear()
    config, *rest = CASES[name]
    config = dataclasses.replace(config, **({"layers": 3} if isinstance(config, TransformerConfig) else {"blocks": 3}))
    steps(config, *rest, "eager", whole)
    assert not torch._dynamo.utils.counters["graph_break"]
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] <= 1 + (1 if whole else GRAPHS[name])


def test_looking_at_a_run_compiles_nothing(text, tmp_path):
    """Sampling drops the rows that are done, so its batches have many sizes: more than a graph may be compiled for."""
    training = TrainingConfig(steps=1, batch_size=4, preview=16, preview_steps=40, validation_sequences=9)
    trainer = build_trainer(
        RunConfig(text, TransformerConfig(8, 1, 2, 16), training=training), tmp_path, torch.device("cpu")
    )
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    trainer.method.compile_parts(backend="eager")
    (report,) = trainer.steps()
    assert report.preview.shape == (16, 32)
    assert report.validation is not None
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 2  # the block and the loss
