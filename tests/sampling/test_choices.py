"""Which positions a sampler reveals and which time it passes to the network: invisible in the samples' distribution."""

import math

import pytest
import torch

from unmask.core import Linear, Process, Streams, TokenPolynomial, uniform_grid
from unmask.sampling import Predictor, trajectory
from unmask.sampling.order import halton_ranks

V = 8
PROCESS = Process(Linear(), V)
EVENLY = [3, 1, 8, 2, 5, 7, 4, 6]
"""A position has one of n equally likely tokens: probability 1 / n and entropy log n, whichever is drawn."""


def evenly(numbers):
    """Probabilities [N, V]."""
    return (torch.arange(V) < torch.tensor(numbers)[:, None]).double() / torch.tensor(numbers)[:, None]


def ahead(margins):
    """The first token leads the second by this much; the rest share a little probability."""
    m = torch.tensor(margins).double()
    rest = torch.full((len(margins), V - 2), 0.01, dtype=torch.float64)
    both = 1 - rest.sum(1)
    return torch.cat([torch.stack([(both + m) / 2, (both - m) / 2], 1), rest], 1)


def frames_of(name, mu, steps, rows=1, process=PROCESS, **options):
    """All frames from an empty start, and the network's inputs: (tokens, times) of each call."""
    shown = []

    def denoise(x, t, condition=None):
        del condition
        shown.append((x.clone(), t.clone()))
        return mu.log().expand(len(x), -1, -1)

    predict = Predictor(denoise, process.mask_id)
    predict.sees_time = name not in ("race", "speculative")
    x = torch.full((rows, len(mu)), process.mask_id)
    frames = trajectory(predict, process, x, uniform_grid(steps), Streams(0, rows), name, **options)
    return list(frames)[1:], shown


def places(frame):
    """The positions revealed in the first row of a frame."""
    return set(frame.changed[0].nonzero()[:, 0].tolist())


@pytest.mark.parametrize(
    ("name", "mu", "best", "options"),
    [
        ("confidence", evenly(EVENLY), [1, 3, 0, 6, 4, 7, 5, 2], {"noise": 0.0}),
        ("entropy", evenly(EVENLY), [1, 3, 0, 6, 4, 7, 5, 2], {}),
        ("margin", ahead([0.1, 0.9, 0.4, 0.2, 0.6, 0.3, 0.8, 0.5]), [1, 6, 4, 7, 2, 5, 3, 0], {}),
        ("halton", evenly(EVENLY), halton_ranks((8,)).argsort().tolist(), {}),
    ],
    ids=["confidence", "entropy", "margin", "halton"],
)
@pytest.mark.parametrize("steps", [8, 4])
def test_the_best_first_as_many_as_the_grid_wants(name, mu, best, options, steps):
    frames, shown = frames_of(name, mu, steps, **options)
    each = 8 // steps
    assert [places(frame) for frame in frames] == [set(best[i : i + each]) for i in range(0, 8, each)]
    assert [t.item() for _, t in shown] == uniform_grid(steps)[:-1].tolist()  # the time before the step


def test_what_stays_is_rounded_down():
    frames, _ = frames_of("entropy", evenly([*EVENLY, 8, 8]), 4)  # 10 positions: 7.5, 5, 2.5, 0 are to stay
    assert [int((frame.tokens == V).sum()) for frame in frames] == [7, 5, 2, 0]


def test_the_noise_of_confidence():
    """log μ + noise·share·Gumbel is largest with chance ∝ μ^(1 / (noise·share)). False alarm: 1e-6."""
    rows, noise = 20_000, 1.5
    frames, _ = frames_of("confidence", evenly([1, 2, 4]), 3, rows, noise=noise)
    found = frames[0].changed.double().mean(0)
    expected = torch.tensor([1, 1 / 2, 1 / 4], dtype=torch.float64) ** (1 / (noise * 2 / 3))  # two thirds stay masked
    expected = expected / expected.sum()
    assert ((found - expected).abs() < 5.1 * (expected * (1 - expected) / rows).sqrt()).all()


def test_all_that_are_nearly_certain_at_least_one():
    mu = ahead([0.80, 0.60, 0.76, 0.20])  # most likely: 0.87, 0.77, 0.85, 0.57
    assert [places(frame) for frame in frames_of("threshold", mu, 1, probability=0.8)[0]] == [{0, 2}, {1}, {3}]
    assert places(frames_of("threshold", mu, 1, probability=0.769)[0][0]) == {0, 1, 2}


@pytest.mark.parametrize(("gamma", "first"), [(0.0, 1), (1.0, 2), (1.5, 3), (2.1, 4)])
def test_as_many_as_their_entropy_allows(gamma, first):
    """Three entropies of log 2 = 0.69 nats and one of log 4: without the largest, n sum to 0, 0.69, 1.39, 2.08."""
    frames, _ = frames_of("entropy-bounded", evenly([4, 2, 2, 2]), 1, gamma=gamma)
    assert len(places(frames[0])) == first
    assert (0 in places(frames[0])) == (first == 4)


@pytest.mark.parametrize("name", ["left-to-right", "threshold", "entropy-bounded", "speculative"])
def test_without_a_grid_the_time_is_the_masked_share(name):
    """The time follows the masked share of the row; a draft is checked at the time at which it was made."""
    options = {"drafts": 1} if name == "speculative" else {}
    _, shown = frames_of(name, evenly(EVENLY), 1, **options)
    assert len(shown) > 1
    for x, t in shown:
        torch.testing.assert_close(t.double(), (x == V).double().mean(1))


@pytest.mark.parametrize("name", ["ancestral", "two-step", "euler", "tau-leaping", "remask-cap", "remask-rescale"])
def test_along_a_grid_the_time_is_that_before_the_step(name):
    """Positions still masked after the last step are drawn at its end time."""
    _, shown = frames_of(name, evenly(EVENLY), 4, rows=16)
    times = [t.unique().item() for _, t in shown]
    assert set(times) - {0.0} == {1.0, 0.75, 0.5, 0.25}
    assert times == sorted(times, reverse=True)


def test_first_hitting_shows_the_time_of_the_token():
    frames, shown = frames_of("first-hitting", evenly(EVENLY), 1, rows=5)
    for frame, (_, t) in zip(frames[:-1], shown[:-1], strict=True):
        torch.testing.assert_close(t, frame.t)


@pytest.mark.parametrize("name", ["first-hitting", "race"])
def test_several_tokens_pass_as_much_time_as_one_by_one(name):
    """Linear, or all w = 1: n uniforms, of which the k largest are passed; the next has mean (n − k + 1) / (n + 1).

    False alarm: 4e-7 each.
    """
    process = Process(TokenPolynomial(torch.ones(V, dtype=torch.float64)), V) if name == "race" else PROCESS
    rows, n, k = 4000, 8, 3
    frames, _ = frames_of(name, evenly(EVENLY), 1, rows, process, tokens_per_call=k)
    mean = (n - k + 1) / (n + 1)
    error = math.sqrt(mean * (1 - mean) / (n + 2) / rows)
    assert abs(frames[0].t.double().mean().item() - mean) < 5.1 * error
