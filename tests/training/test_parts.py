"""The parts of training, each against what it claims."""

import math

import pytest
import torch
from torch import nn

from unmask.networks import Conditioning, Transformer, TransformerConfig, UNetConfig
from unmask.training import Average, OptimizerConfig, RateConfig, TrainingConfig, build_optimizer, rate_factor
from unmask.training.muon import Muon
from unmask.training.optimizer import hidden_matrices
from unmask.training.world import World


def rates(config, steps=1000):
    return [rate_factor(config, step, steps) for step in range(steps)]


def test_rates_rise_and_fall():
    cosine = rates(RateConfig(warmup=100, cooldown="cosine"))
    assert cosine[0] == 0.01
    assert cosine[99] == cosine[100] == 1
    assert cosine[550] == pytest.approx(0.5)
    assert cosine[-1] < 1e-4
    linear = rates(RateConfig(warmup=10, cooldown="linear", cooldown_share=0.25, final_rate=0.1))
    assert set(linear[10:750]) == {1.0}
    assert linear[-1] == pytest.approx(0.1, abs=0.005)
    assert linear == sorted(linear[:11]) + sorted(linear[11:], reverse=True)
    assert set(rates(RateConfig(warmup=0, cooldown="none"))) == {1.0}


def network():
    torch.manual_seed(0)
    return Transformer(TransformerConfig(7, layers=2, heads=2, width=16))


@pytest.mark.parametrize("name", ["adamw", "muon"])
def test_every_parameter_is_in_one_group(name):
    net = network()
    optimizers = build_optimizer(OptimizerConfig(name), net)
    found = [id(p) for part in optimizers.parts for group in part.param_groups for p in group["params"]]
    assert sorted(found) == sorted(id(p) for p in net.parameters())


def test_decay_spares_norms_and_embeddings():
    net = network()
    optimizers = build_optimizer(OptimizerConfig(), net)
    decayed = {id(p) for g in optimizers.parts[0].param_groups if g["weight_decay"] for p in g["params"]}
    assert id(net.embedding.weight) not in decayed
    assert id(net.blocks[0].attention.scale_q) not in decayed
    assert id(net.blocks[0].attention.qkv.weight) in decayed


def test_muon_takes_the_hidden_matrices_only():
    net = network()
    hidden = {id(p): parts for p, parts in hidden_matrices(net)}
    assert id(net.output.weight) not in hidden
    assert id(net.embedding.weight) not in hidden
    assert sorted(hidden.values()) == [1] * 4 + [2] * 2 + [3] * 2  # per block: attention's and the MLP's out, in, qkv
    seeing = Transformer(TransformerConfig(7, layers=2, heads=2, width=16, conditioning=Conditioning(time=True)))
    assert len(hidden_matrices(seeing)) == 2 * 4  # adaLN and the time's own layers stay with AdamW
    pixels = UNetConfig(8, 1, blocks=2, width=8, groups=4, conditioning=Conditioning(time=True)).build()
    kernels = [tuple(p.shape) for p, _ in hidden_matrices(pixels) if p.ndim == 4]
    middle = 2  # residual blocks around its attention
    assert kernels.count((8, 8, 3, 3)) == 2 * (2 + middle) + 3
    assert kernels.count((8, 16, 3, 3)) == 3  # on the way up they read what was left
    assert len(hidden_matrices(pixels)) - len(kernels) == 3 + 2  # the joints, and attention's in and out


def test_muon_needs_matrices_that_are_marked():
    with pytest.raises(ValueError, match="this network has no matrices for Muon: got Sequential"):
        build_optimizer(OptimizerConfig("muon"), nn.Sequential(nn.Linear(3, 3)))


def test_muon_of_alike_matrices_together_is_that_of_each():
    """PyTorch's own, to the rounding of bf16: tall, wide and square matrices, with momentum and weight decay."""
    generator = torch.Generator().manual_seed(0)
    shapes = [(24, 8), (8, 24), (24, 8), (16, 16), (8, 24)]
    ours, theirs = ([nn.Parameter(torch.ones(shape)) for shape in shapes] for _ in range(2))
    steppers = [
        kind(own, lr=0.1, weight_decay=0.3) for kind, own in ((Muon, [{"params": ours}]), (torch.optim.Muon, theirs))
    ]
    for _ in range(4):
        for a, b in zip(ours, theirs, strict=True):
            a.grad = b.grad = torch.randn(a.shape, generator=generator)
        for stepper in steppers:
            stepper.step()
    for a, b in zip(ours, theirs, strict=True):
        assert (a - 1).abs().max() > 0.1
        torch.testing.assert_close(a, b, rtol=0, atol=0.01)  # four steps of about 0.1


def test_muon_keeps_its_buffer():
    """A CUDA graph replays addresses: every step must write where the first one did."""
    matrix, places = nn.Parameter(torch.ones(4, 4)), set()
    stepper = Muon([{"params": [matrix]}], lr=0.1)
    for _ in range(3):
        matrix.grad = torch.ones(4, 4)
        stepper.step()
        (state,) = stepper.state.values()
        places |= {x.data_ptr() for x in state.values() if isinstance(x, torch.Tensor)}
    assert len(places) == len(state)


def test_muon_of_a_kernel_is_that_of_its_matrix():
    generator = torch.Generator().manual_seed(0)
    kernels = [nn.Parameter(torch.ones(6, 4, 3, 3)) for _ in range(2)]
    matrices = [nn.Parameter(torch.ones(6, 36)) for _ in range(2)]
    steppers = [Muon([{"params": own}], lr=0.1, weight_decay=0.3) for own in (kernels, matrices)]
    for _ in range(3):
        for kernel, matrix in zip(kernels, matrices, strict=True):
            kernel.grad = torch.randn(kernel.shape, generator=generator)
            matrix.grad = kernel.grad.flatten(1)
        for stepper in steppers:
            stepper.step()
    for kernel, matrix in zip(kernels, matrices, strict=True):
        assert (kernel - 1).abs().max() > 0.1
        torch.testing.assert_close(kernel.flatten(1), matrix, rtol=0, atol=0)


def test_muon_of_stacked_matrices_is_that_of_their_parts():
    generator = torch.Generator().manual_seed(0)
    stacked, single = nn.Parameter(torch.zeros(24, 8)), [nn.Parameter(torch.zeros(8, 8)) for _ in range(3)]
    stacked.grad = torch.randn(24, 8, generator=generator)
    for part, gradient in zip(single, stacked.grad.chunk(3), strict=True):
        part.grad = 5 * gradient  # the size of a gradient does not matter
    Muon([{"params": [stacked], "parts": 3}], lr=0.1).step()
    Muon([{"params": single}], lr=0.1).step()
    torch.testing.assert_close(stacked, torch.cat(list(single)))


@pytest.mark.parametrize("name", ["adamw", "muon"])
def test_optimisers_learn_and_resume_exactly(name):
    """After saving and loading the state, the next steps are bit-identical."""
    x = torch.randint(7, (32, 12), generator=torch.Generator().manual_seed(1))
    config = OptimizerConfig(name, rate=1e-2)

    def step(net, optimizers, factor=1.0):
        loss = nn.functional.cross_entropy(net(x).flatten(0, 1), x.flatten())
        optimizers.zero_grad()
        loss.backward()
        optimizers.step(factor)
        return loss.item()

    net = network()
    optimizers = build_optimizer(config, net)
    losses = [step(net, optimizers, 1 - i / 40) for i in range(20)]
    assert losses[0] == pytest.approx(math.log(7), abs=1e-5)
    assert losses[-1] < 0.5 * losses[0]
    weights = {k: v.clone() for k, v in net.state_dict().items()}
    state = {k: v.clone() for k, v in optimizers.tensors(net).items()}
    assert all(name.startswith("state.") for name in state)
    ahead = [step(net, optimizers, 0.5) for _ in range(3)]

    again = network()
    other = build_optimizer(config, again)
    again.load_state_dict(weights)
    other.load(again, state)
    assert [step(again, other, 0.5) for _ in range(3)] == ahead


def test_the_learned_schedule_has_its_own_rate():
    w = nn.Parameter(torch.zeros(5))
    optimizers = build_optimizer(OptimizerConfig(schedule_rate=0.02), network(), [w])
    assert optimizers.parts[-1].param_groups[0]["params"][0] is w
    w.grad = torch.ones(5)
    optimizers.parts[-1].step()
    torch.testing.assert_close(w.detach(), torch.full((5,), -0.02))


def test_average_follows_its_recursion_and_is_put_back():
    net = nn.Linear(3, 2)
    average = Average(net, decay=0.9)
    by_hand = {n: p.detach().clone() for n, p in net.named_parameters()}
    for step in range(30):
        with torch.no_grad():
            for p in net.parameters():
                p.add_(torch.randn(p.shape, generator=torch.Generator().manual_seed(step)))
        average.update(step)
        d = min(0.9, (1 + step) / (10 + step))
        by_hand = {n: d * by_hand[n] + (1 - d) * p.detach() for n, p in net.named_parameters()}
    for name, tensor in average.weights.items():
        torch.testing.assert_close(tensor, by_hand[name])
    own = net.weight.detach().clone()
    with average.applied():
        torch.testing.assert_close(net.weight.detach(), by_hand["weight"])
    assert torch.equal(net.weight.detach(), own)
    with pytest.raises(RuntimeError), average.applied():
        raise RuntimeError
    assert torch.equal(net.weight.detach(), own)


def test_average_of_a_short_run_is_not_its_start():
    """With 0.9999 and 1,000 steps of constant weights the average has arrived: the start is gone to 1e-6."""
    net = nn.Linear(1, 1, bias=False)
    with torch.no_grad():
        net.weight.fill_(0.0)
    average = Average(net, decay=0.9999)
    with torch.no_grad():
        net.weight.fill_(1.0)
    for step in range(1000):
        average.update(step)
    assert average.weights["weight"].item() == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RateConfig(cooldown="stairs"), "unknown cooldown: got stairs, allowed: cosine, linear, none"),
        (lambda: RateConfig(warmup=-1), "the warm-up is negative"),
        (lambda: RateConfig(cooldown_share=0.0), "the cooldown share is out of range"),
        (lambda: RateConfig(final_rate=2.0), "the final rate is out of range"),
        (lambda: OptimizerConfig("sgd"), "unknown optimiser: got sgd, allowed: adamw, muon"),
        (lambda: OptimizerConfig(rate=0.0), "a learning rate is not positive"),
        (lambda: OptimizerConfig(weight_decay=-1.0), "weight decay is negative"),
        (lambda: Average(nn.Linear(1, 1), 1.0), "the decay is out of range"),
    ],
)
def test_mistakes(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def _fail(ours):
    assert not ours
    raise OSError("no room")


def test_what_goes_wrong_on_one_rank_goes_wrong_there_too():
    """Also on another than the first, and where the first has nothing to say."""

    class Second(World):
        def broadcast(self, thing):
            del thing

    with pytest.raises(OSError, match="no room"), Second(1, 2).first_only() as ours:
        _fail(ours)


@pytest.mark.parametrize("decay", [1.0, -0.1])
def test_an_average_that_never_moves_is_refused_at_once(decay):
    with pytest.raises(ValueError, match=f"average is out of range: got {decay}"):
        TrainingConfig(average=decay)
