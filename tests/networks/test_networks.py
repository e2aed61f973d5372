"""What every network promises, whatever its kind."""

import math

import pytest
import torch

from unmask.core import ExactK, Linear, Process, Streams, nelbo
from unmask.networks import (
    Conditioning,
    Hourglass,
    HourglassConfig,
    KVCache,
    Transformer,
    TransformerConfig,
    UNet,
    UNetConfig,
    UViT,
    UViTConfig,
    cost,
)

BOTH = Conditioning(time=True, classes=3)
V = 11


def transformer(conditioning=BOTH, layers=2, **options):
    return Transformer(TransformerConfig(V, layers, heads=2, width=16, conditioning=conditioning, **options))


def with_value_residuals(conditioning=BOTH, **options):
    return transformer(conditioning, value_residuals=True, **options)


def unet(conditioning=BOTH, **options):
    return UNet(UNetConfig(V, blocks=2, width=8, groups=4, conditioning=conditioning, **options))


def uvit(conditioning=BOTH, **options):
    sizes = {"blocks": 1, "width": 8, "groups": 4, "layers": 2, "heads": 2, "transformer_width": 16}
    return UViT(UViTConfig(V, **sizes, conditioning=conditioning, **options))


def hourglass(conditioning=BOTH, **options):
    sizes = {"layers": 2, "inner_heads": 2, "inner_width": 24, "outer_layers": 1, "heads": 2, "width": 16}
    return Hourglass(HourglassConfig(V, **sizes, conditioning=conditioning, **options))


KINDS = {
    "transformer": (transformer, (24,)),
    "value residuals": (with_value_residuals, (24,)),
    "hourglass": (hourglass, (24,)),
    "unet": (unet, (4, 6, 3)),
    "uvit": (uvit, (4, 6, 3)),
}
every_kind = pytest.mark.parametrize(("build", "shape"), KINDS.values(), ids=KINDS.keys())


def inputs(shape, batch=4):
    x = (Streams(0, batch).uniform(*shape) * (V + 1)).long()  # masks among them
    return x, Streams(1, batch).uniform(), torch.tensor([0, 1, 2, 3])[:batch]


def awake(network, seed=0):
    """The network with random weights everywhere, so that nothing is hidden by a zero."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.3)
    return network


@every_kind
def test_a_new_network_predicts_uniformly(build, shape):
    """Zero-initialised heads: the first loss is N log V whatever the data."""
    network, (x, t, label) = build(), inputs(shape)
    x_0 = x.clamp(max=V - 1)
    process = Process(Linear(), V)
    draw = ExactK(process).draw(x_0, Streams(0, len(x_0)))
    logits = network(process.hide(x_0, draw.mask), t, label)[draw.mask]
    truth = torch.full((4,), math.prod(shape) * math.log(V), dtype=torch.float64)
    torch.testing.assert_close(nelbo(logits, x_0, draw).total, truth, rtol=1e-6, atol=0)


def test_a_tied_table_is_read_at_both_ends():
    """Few parameters more than without a head; the mask and what rounds the table up are no outputs."""
    network, (x, t, label) = transformer(tied=True), inputs((24,))
    assert network.head_parameters() == [network.embedding.weight]
    headless = sum(p.numel() for p in transformer().parameters()) - transformer().output.weight.numel()
    assert sum(p.numel() for p in network.parameters()) - headless == (64 - (V + 1)) * 16
    assert network(x, t, label).shape == (4, 24, V)
    network(x, t, label).sum().backward()
    assert network.embedding.weight.grad[:V].abs().min() > 0
    assert network.embedding.weight.grad[V + 1 :].abs().max() == 0


@pytest.mark.parametrize("build", [transformer, with_value_residuals, hourglass])
def test_rows_of_different_lengths_side_by_side(build):
    """Each has the features that it has alone, whatever stands beyond its end."""
    network, (x, t, label) = awake(build()), inputs((24,))
    lengths = torch.tensor([24, 17, 4, 1])
    together = network.features(x, t, label, lengths=lengths)
    for i, length in enumerate(lengths.tolist()):
        alone = network.features(x[i : i + 1, :length], t[i : i + 1], label[i : i + 1])
        torch.testing.assert_close(together[i, :length], alone[0], rtol=1e-4, atol=1e-5)


@every_kind
def test_head_of_features_is_the_network(build, shape):
    network, (x, t, label) = awake(build()), inputs(shape)
    features = network.features(x, t, label)
    assert features.shape[:-1] == x.shape
    mask = x == V
    torch.testing.assert_close(network.head(features[mask]), network(x, t, label)[mask])
    assert network(x, t, label).shape == (*x.shape, V)


@every_kind
def test_every_position_sees_every_other(build, shape):
    """Changing the last token changes the first prediction, and the other way round."""
    network, (x, t, label) = awake(build()), inputs(shape, 1)
    before = network(x, t, label).flatten(1, -2)
    for place in (0, -1):
        other = x.clone().flatten(1)
        other[:, place] = (other[:, place] + 1) % V
        after = network(other.view_as(x), t, label).flatten(1, -2)
        assert not torch.allclose(after[:, -1 - place], before[:, -1 - place])


@every_kind
def test_time_and_label_are_seen_or_not(build, shape):
    x, t, label = inputs(shape)
    network = awake(build())
    base = network(x, t, label)
    assert not torch.allclose(network(x, t * 0.5, label), base)
    assert not torch.allclose(network(x, t, (label + 1) % 3), base)
    no_label = torch.full((4,), 3)
    torch.testing.assert_close(network(x, t), network(x, t, no_label))
    blind = awake(build(Conditioning()))
    torch.testing.assert_close(blind(x, t), blind(x, 1 - t))
    with pytest.raises(ValueError, match="has no classes"):
        blind(x, t, label)
    with pytest.raises(ValueError, match="needs the time"):
        network(x, None, label)


@every_kind
def test_dropout_is_a_function_of_the_sample(build, shape):
    network, (x, t, label) = awake(build(dropout=0.4)), inputs(shape)

    def features(streams, rows=slice(None)):
        return network.features(x[rows], t[rows], label[rows], network.draw_dropout(streams))

    dropped = features(Streams(0, 4, step=5))
    torch.testing.assert_close(dropped, features(Streams(0, 4, step=5)))
    assert not torch.allclose(dropped, features(Streams(0, 4, step=6)))
    alone = features(Streams(0, torch.tensor([2]), step=5), slice(2, 3))
    torch.testing.assert_close(alone[0], dropped[2], rtol=1e-4, atol=1e-4)
    assert not torch.allclose(dropped, network.features(x, t, label))  # nothing drawn, nothing dropped
    assert build(dropout=0.0).draw_dropout(Streams(0, 4)) == ()


def test_dropout_drops_whole_channels_and_keeps_the_mean():
    from unmask.networks.network import draw_channels

    masks = draw_channels(0.25, 3, 2000, Streams(0, 4))
    assert masks.shape == (3, 4, 2000)
    assert masks.unique().tolist() == pytest.approx([0, 4 / 3])
    assert masks.mean().item() == pytest.approx(1, abs=5 * (1 / 3 / 24_000) ** 0.5)


@every_kind
def test_recomputed_activations_change_nothing(build, shape):
    """Losses and gradients with activations kept and recomputed, dropout on."""
    x, t, label = inputs(shape)
    results = []
    for use in (False, True):
        network = awake(build(dropout=0.3, recompute=use))
        loss = network.head(network.features(x, t, label, network.draw_dropout(Streams(0, 4)))).square().mean()
        results.append((loss, torch.autograd.grad(loss, list(network.parameters()), allow_unused=True)))
    torch.testing.assert_close(results[0][0], results[1][0], rtol=0, atol=0)
    for a, b in zip(results[0][1], results[1][1], strict=True):
        if a is not None:
            torch.testing.assert_close(a, b)


@every_kind
@pytest.mark.parametrize("conditioning", [BOTH, Conditioning()], ids=["conditioned", "free"])
def test_every_parameter_learns(build, shape, conditioning):
    """From the real initialisation, every parameter gets a gradient within a few steps."""
    network, (x, t, label) = build(conditioning), inputs(shape)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)
    before = [p.detach().clone() for p in network.parameters()]
    target = x.clamp(max=V - 1)
    for _ in range(4):
        logits = network(x, t, label if conditioning.any else None)
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, -2), target.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    still = [n for (n, p), b in zip(network.named_parameters(), before, strict=True) if torch.equal(p, b)]
    assert still == []


@pytest.mark.parametrize("mlp", ["gated", "relu2"])
def test_transformer_learns_a_rule(mlp):
    """x_2 = x_0 + x_1 mod 5: after brief training the masked sum is read off the visible terms."""
    torch.manual_seed(0)
    network = Transformer(TransformerConfig(5, layers=2, heads=2, width=32, mlp=mlp))
    optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
    for _ in range(300):
        x = torch.randint(5, (128, 3))
        x[:, 2] = (x[:, 0] + x[:, 1]) % 5
        x_t = x.clone()
        x_t[:, 2] = 5
        loss = torch.nn.functional.cross_entropy(network(x_t)[:, 2], x[:, 2])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.05


def test_value_residuals_mix_the_first_layers_values():
    """Without a share of them it is the plain transformer; with nothing else, own values do not matter."""
    network, plain = awake(with_value_residuals()), transformer()
    (x, t, label), last = inputs((24,)), network.blocks[1].attention
    assert network.blocks[0].attention.share is None
    assert with_value_residuals().blocks[1].attention.share.item() == 0.5
    plain.load_state_dict({name: value for name, value in network.state_dict().items() if "share" not in name})
    with torch.no_grad():
        last.share.zero_()
        expected = plain(x, t, label)
        torch.testing.assert_close(network(x, t, label), expected)
        last.share.fill_(1)
        mixed = network(x, t, label)
        assert (mixed - expected).abs().max() > 0.1
        last.qkv.weight[32:].mul_(-1)
        torch.testing.assert_close(network(x, t, label), mixed)
        network.blocks[0].attention.qkv.weight[32:].mul_(-1)
        assert (network(x, t, label) - mixed).abs().max() > 0.1


def test_values_come_from_the_first_layer_and_not_from_the_one_before():
    network = awake(with_value_residuals(layers=3))
    (x, t, label), (_, second, third) = inputs((24,)), (block.attention for block in network.blocks)
    with torch.no_grad():
        third.share.fill_(1)
        second.share.zero_()
        second.out.weight.zero_()  # what the second layer says of its own values nobody hears
        before = network(x, t, label)
        second.qkv.weight[32:].mul_(-1)
        torch.testing.assert_close(network(x, t, label), before)


@pytest.mark.parametrize("how", [{"causal": True}, {"block": 4}])
def test_value_residuals_of_what_was_read_before(how):
    """Networks that read in order keep mixed values: a part after the other is the whole."""
    network = awake(with_value_residuals(Conditioning(), **how))
    x = inputs((16,))[0]
    shown, caches = network.shifted(x) if network.causal else x, [KVCache() for _ in network.blocks]
    with torch.no_grad():
        parts = [network.read(shown[:, n : n + 4], caches, n) for n in range(0, 16, 4)]
        torch.testing.assert_close(torch.cat(parts, 1), network.features(x), rtol=1e-4, atol=1e-5)


def test_rotary_attention_depends_on_distance_only():
    from unmask.networks.fused import rotate
    from unmask.networks.transformer import Rotations

    cos, sin = Rotations(8)(10)
    q, k = torch.randn(2, 1, 1, 1, 8, generator=torch.Generator().manual_seed(0)).expand(2, 1, 10, 1, 8)
    scores = torch.einsum("bnhd,bmhd->nm", rotate(q, cos, sin), rotate(k, cos, sin))
    for distance in range(-9, 10):
        diagonal = scores.diagonal(distance)
        torch.testing.assert_close(diagonal, diagonal[:1].expand_as(diagonal), rtol=1e-4, atol=1e-4)
    assert not torch.allclose(scores[0, 1], scores[1, 0])  # direction matters


def test_places_can_be_told_apart_when_everything_is_masked():
    """RoPE alone cannot: all positions of an all-masked input get one prediction. Learned places can."""
    masks = torch.full((1, 6), V)
    same = awake(Transformer(TransformerConfig(V, layers=2, heads=2, width=16)))(masks)[0]
    torch.testing.assert_close(same, same[:1].expand_as(same), rtol=1e-4, atol=1e-4)
    network = awake(Transformer(TransformerConfig(V, layers=2, heads=2, width=16, positions=6)))
    told = network(masks)[0]
    assert (told[0] - told[1]).abs().max() > 1e-2
    with pytest.raises(ValueError, match="longer than the network's positions: got 7, allowed: at most 6"):
        network(torch.full((1, 7), V))


def test_grey_images_need_no_channel_axis():
    network = UNet(UNetConfig(V, channels=1, blocks=1, width=8, groups=4))
    assert network(torch.zeros(2, 4, 4, dtype=torch.int64)).shape == (2, 4, 4, V)


PAPER = {  # parameters in millions, as the paper states them (12x768 without embeddings is 85)
    "text8": (lambda: Transformer(TransformerConfig(27)), (256,), 85.0),
    "CIFAR-10": (lambda: UNet(UNetConfig(conditioning=Conditioning(time=True))), (32, 32, 3), 28.0),
    "ImageNet 64x64": (lambda: UViT(UViTConfig()), (64, 64, 3), 198.0),
}


@pytest.mark.parametrize("name", PAPER)
def test_the_papers_sizes(name):
    build, shape, millions = PAPER[name]
    found = cost(build, shape)
    assert found.parameters / 1e6 == pytest.approx(millions, rel=0.01)
    assert found.memory(8, mixed=False) >= found.memory(8, mixed=True) > found.state_bytes == 20 * found.parameters


def test_operations_are_counted():
    """6 per parameter and token for the matrices, 12·N·D per layer for attention; the head at half of the positions."""
    config = TransformerConfig(1000, layers=3, heads=4, width=64, mlp="relu2")
    N, D, L, V = 128, 64, 3, 1000
    matrices = L * 12 * D * D
    found = cost(lambda: Transformer(config), (N,)).flops_per_token
    by_hand = 6 * matrices + 6 * D * V / 2 + L * 12 * N * D
    assert found == pytest.approx(by_hand, rel=0.12)  # the flop counter has attention's backward at 2.5 passes


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TransformerConfig(5, heads=5, width=64), "the heads do not fit the width: got width 64, 5 heads"),
        (lambda: TransformerConfig(5, mlp="swish"), "unknown MLP: got swish, allowed: gated, relu2"),
        (lambda: TransformerConfig(5, dropout=1.0), "dropout is out of range: got 1.0"),
        (lambda: UNetConfig(width=100), "the groups do not fit the width"),
        (lambda: UViTConfig(width=100), "the groups do not fit the width"),
        (lambda: UViTConfig(patch=0), "patch is out of range"),
        (lambda: UViTConfig(layers=0), "layers is out of range"),
        (lambda: UViTConfig(heads=7), "the heads do not fit the width"),
        (lambda: HourglassConfig(V, patch=1.5), "patch is out of range"),
        (lambda: unet()(torch.zeros(2, 4, 4, dtype=torch.int64)), r"not images of this network: got shape \(2, 4, 4\)"),
        (lambda: uvit()(torch.zeros(2, 5, 4, 3, dtype=torch.int64), torch.zeros(2)), "does not divide into patches"),
    ],
)
def test_mistakes(make, message):
    with pytest.raises(ValueError, match=message):
        make()
