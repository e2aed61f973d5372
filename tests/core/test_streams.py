import pytest
import torch
from scipy import stats

from unmask.core import Streams
from unmask.core.streams import philox


@pytest.mark.parametrize(
    ("counter", "key", "answer"),
    [  # the known-answer vectors published with Philox4x32-10
        ([0] * 4, [0] * 2, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
        ([0xFFFFFFFF] * 4, [0xFFFFFFFF] * 2, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
        (
            [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
            [0xA4093822, 0x299F31D0],
            [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
        ),
    ],
)
def test_philox_gives_the_published_answers(counter, key, answer):
    words = philox(tuple(torch.tensor([c]) for c in counter), tuple(key))
    assert [int(w) for w in words] == answer


def test_a_sample_does_not_depend_on_its_batch():
    batch = Streams(7, 20, step=3)
    alone = Streams(7, torch.tensor([17]), step=3)
    for shape in [(5,), (2, 3), ()]:
        assert torch.equal(batch.uniform(*shape)[17], alone.uniform(*shape)[0])


def test_everything_changes_the_numbers():
    base = Streams(1, 2, step=0).uniform(8)
    others = [
        Streams(2, 2, step=0).uniform(8),
        Streams(1 + 2**40, 2, step=0).uniform(8),
        Streams(1, 2, step=1).uniform(8),
        Streams(1, 2).fork("a").uniform(8),
        Streams(1, 2).fork("b").uniform(8),
    ]
    streams = Streams(1, 2)
    streams.uniform(8)
    others.append(streams.uniform(8))  # the second call
    everything = torch.cat([x.flatten() for x in [base, *others]])
    assert len(everything.unique()) == everything.numel()
    assert torch.equal(base, Streams(1, 2).uniform(8))
    assert torch.equal(Streams(1, 2).at(5).uniform(8), Streams(1, 2, step=5).uniform(8))


def test_uniform_on_the_open_interval():
    """Kolmogorov-Smirnov over a million numbers, false alarm 1e-6, within a stream and across streams."""
    within = Streams(3, 1).uniform(1_000_000)[0]
    across = Streams(3, 1_000_000).uniform()
    for u in (within, across):
        assert u.min() > 0
        assert u.max() < 1
        assert stats.kstest(u.numpy(), "uniform").pvalue > 1e-6
    neighbours = Streams(3, 2).uniform(500_000)
    assert abs(torch.corrcoef(neighbours)[0, 1]) < 5 / 500_000**0.5


def test_every_value_is_an_odd_multiple_of_two_to_minus_53():
    scaled = Streams(0, 4).uniform(1000) * 2.0**53
    assert torch.equal(scaled, scaled.round())
    assert torch.all(scaled % 2 == 1)


def test_all_52_bits_are_random():
    """Each bit is one half of the time, within 6 standard errors of 40,000 draws (false alarm 1e-7)."""
    bits = ((Streams(0, 1).uniform(40_000)[0] * 2.0**52).floor().long()[:, None] >> torch.arange(52)) & 1
    assert (bits.double().mean(0) - 0.5).abs().max() < 6 * 0.5 / 200


def test_forks_are_new_and_independent_of_the_index_type():
    streams = Streams(0, 3)
    first, second = streams.fork("a").uniform(4), streams.fork("a").uniform(4)
    assert not torch.equal(first, second)
    assert torch.equal(first, Streams(0, torch.arange(3, dtype=torch.int32)).fork("a").uniform(4))


@pytest.mark.parametrize("shape", [(), (5,), (2, 3)])
def test_several_calls_in_one_go(shape):
    one, other = Streams(3, torch.tensor([4, 0, 9]), step=2), Streams(3, torch.tensor([4, 0, 9]), step=2)
    apart = [one.uniform(*shape) for _ in range(4)]
    together = [other.uniform(*shape), *other.uniforms(3, *shape)]
    assert all(torch.equal(a, b) for a, b in zip(apart, together, strict=True))
