"""Guarantees of all samplers: given tokens stay, samples are independent, calls are counted, no mask is left."""

import dataclasses
import itertools
import math

import pytest
import torch

from unmask.core import Cosine, Geometric, Linear, Process, Shifted, Streams, cosine_grid, uniform_grid
from unmask.networks import Conditioning, TransformerConfig
from unmask.sampling import LAWS, MASKED, SAMPLERS, UNIFORM, Guidance, Predictor, sample, trajectory
from unmask.sampling.order import halton_ranks
from unmask.sampling.predict import guided
from unmask.sampling.samplers import POLYNOMIAL

from .oracle import TOKENS, chain

V, N = 4, 12
LAW = chain(V)
PROCESS = Process(Linear(), V)
FITTING = [name for name, sampler in SAMPLERS.items() if MASKED in sampler.families]
"""Samplers of other families are tested with their baselines."""
ALL = [pytest.param(name, id=name) for name in FITTING]


def predictor(process=PROCESS, time_free=True, **options):
    predict = Predictor(LAW.denoiser(process), process.mask_id, **options)
    predict.sees_time = not time_free
    return predict


def process_for(name, schedule=None):
    """The scalar process, or GenMD4's for the samplers that need it."""
    if SAMPLERS[name].schedules == POLYNOMIAL:
        return Process(type(TOKENS.schedule)(torch.linspace(0.5, 2.0, V, dtype=torch.float64)), V)
    return Process(schedule or Linear(), V)


def prompts(count=6):
    """Rows with random gaps, from entirely given to entirely masked."""
    x = LAW.draw(N, Streams(5, count))
    hide = Streams(6, count).uniform(N) < torch.linspace(0, 1, count)[:, None]
    return x.masked_fill(hide, V)


@pytest.mark.parametrize("name", ALL)
def test_given_tokens_stay_and_the_rest_is_filled(name):
    process, x = process_for(name), prompts()
    for frame in trajectory(predictor(process), process, x, cosine_grid(7), Streams(0, len(x)), name):
        assert (frame.tokens == x)[x != V].all()
    assert (frame.tokens < V).all()
    assert (frame.tokens >= 0).all()


@pytest.mark.parametrize("name", ALL)
def test_a_sample_does_not_depend_on_the_others(name):
    process, x = process_for(name), prompts(8)
    together = sample(predictor(process), process, x, uniform_grid(6), Streams(1, 8), name).tokens
    for row in (0, 3, 7):
        alone = sample(
            predictor(process), process, x[row : row + 1], uniform_grid(6), Streams(1, torch.tensor([row])), name
        )
        assert torch.equal(alone.tokens[0], together[row])


@pytest.mark.parametrize("name", ALL)
def test_frames_say_what_changed(name):
    process, x = process_for(name), prompts()
    frames = list(trajectory(predictor(process), process, x, uniform_grid(5), Streams(0, len(x)), name))
    assert [frame.step for frame in frames] == list(range(len(frames)))
    for before, after in itertools.pairwise(frames):
        assert torch.equal(after.changed | (before.tokens != after.tokens), after.changed)
        assert (after.t <= before.t + 1e-12).all() or "remask" in name
        assert after.calls >= before.calls


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("steps", [1, 2, 300])
def test_any_number_of_steps(name, steps):
    process, x = process_for(name), prompts(3)
    assert (sample(predictor(process), process, x, uniform_grid(steps), Streams(0, 3), name).tokens < V).all()


@pytest.mark.parametrize("name", [n for n in FITTING if SAMPLERS[n].schedules != POLYNOMIAL])
@pytest.mark.parametrize("schedule", [Cosine(), Geometric(), Shifted(Linear(), 1e-3)], ids=repr)
def test_every_schedule(name, schedule):
    process, x = process_for(name, schedule), prompts(4)
    assert (sample(predictor(process), process, x, uniform_grid(5), Streams(0, 4), name).tokens < V).all()


@pytest.mark.parametrize("name", ALL)
def test_images_too(name):
    """Positions in two and three dimensions."""
    process = process_for(name)

    def denoise(x, t, condition=None):
        del t, condition
        return LAW.denoiser(process)(x.flatten(1), torch.ones(len(x))).view(*x.shape, V)

    predict = Predictor(denoise, V)
    predict.sees_time = False
    x = torch.full((3, 2, 2, 3), V)
    x[1, 0] = 1
    tokens = sample(predict, process, x, uniform_grid(4), Streams(0, 3), name).tokens
    assert tokens.shape == x.shape
    assert (tokens < V).all()
    assert (tokens[1, 0] == 1).all()


@pytest.mark.parametrize("grid", [uniform_grid(16), cosine_grid(16), uniform_grid(64)], ids=["16", "cosine 16", "64"])
def test_calls_follow_the_formula(grid):
    """E[calls] = Σ_j 1 − (1 − d_j)^N with d_j = α_s − α_t; 4 standard errors allow a false alarm of 6e-5."""
    count = 2000
    process = Process(Linear(), V)
    found = sample(predictor(), process, torch.full((count, N), V), grid, Streams(0, count)).calls
    idle = (1 - (grid[:-1] - grid[1:])) ** N
    expected, error = (1 - idle).sum().item(), ((idle * (1 - idle)).sum() / count).sqrt().item()
    assert abs(found - expected) < 4 * error


def test_calls_of_the_others():
    x = torch.full((5, N), V)
    hitting = sample(predictor(), PROCESS, x, uniform_grid(1), Streams(0, 5), "first-hitting")
    assert hitting.calls == N
    three = sample(predictor(), PROCESS, x, uniform_grid(1), Streams(0, 5), "first-hitting", tokens_per_call=3)
    assert three.calls == N / 3
    assert sample(predictor(), PROCESS, x, uniform_grid(4), Streams(0, 5), "confidence").calls == 4
    assert sample(predictor(), PROCESS, x, uniform_grid(40), Streams(0, 5), "confidence").calls == N
    rows = sample(predictor(), PROCESS, x, uniform_grid(1), Streams(0, 5), "speculative", drafts=4)
    frames = list(trajectory(predictor(), PROCESS, x, uniform_grid(1), Streams(0, 5), "speculative", drafts=4))
    assert len(frames) - 1 < N  # fewer in a row, more in all
    assert rows.calls > N


@pytest.mark.parametrize("name", ["ancestral", "confidence", "joint", "remask-cap", "threshold"])
def test_the_cache_changes_nothing(name):
    x = prompts()
    plain, cached = (predictor(cache=cache) for cache in (False, True))
    found = [sample(p, PROCESS, x, uniform_grid(30), Streams(2, len(x)), name) for p in (plain, cached)]
    assert torch.equal(found[0].tokens, found[1].tokens)
    assert cached.calls <= plain.calls


def test_the_cache_saves_calls_where_nothing_changes():
    """The published one-step form calls the network in every step; most of 60 steps for 12 positions change nothing."""
    x = torch.full((4, N), V)
    plain, cached = (predictor(cache=cache) for cache in (False, True))
    for predict in (plain, cached):
        sample(predict, PROCESS, x, uniform_grid(60), Streams(2, 4), "joint")
    assert cached.calls < 0.5 * plain.calls
    assert cached.calls <= 4 * (N + 1)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("remask-cap", {"eta": 0.0}),
        ("remask-rescale", {"eta": 0.0}),
        ("remask-confidence", {"eta": 0.0}),
        ("dfm-corrector", {"strength": 0.0}),
    ],
)
def test_without_remasking_it_is_ancestral_bit_for_bit(name, options):
    x = prompts(40)
    grid, streams = cosine_grid(9), Streams(3, 40)
    remasked = sample(predictor(), PROCESS, x, grid, streams, name, **options).tokens
    assert torch.equal(remasked, sample(predictor(), PROCESS, x, grid, streams).tokens)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("remask-cap", {"eta": 0.1}),
        ("remask-rescale", {"eta": 0.5}),
        ("remask-confidence", {}),
        ("forward-backward", {}),
        ("dfm-corrector", {"strength": 2.0}),
    ],
)
def test_remasking_keeps_the_masked_share_on_schedule(name, options):
    """The mean share follows 1 − α; 5 standard errors of independent positions at each of 11 steps."""
    count, length = 600, 24
    frames = trajectory(
        predictor(), PROCESS, torch.full((count, length), V), uniform_grid(12), Streams(4, count), name, **options
    )
    hidden_again = 0
    for frame in frames:
        share, expected = (frame.tokens == V).double().mean().item(), frame.t[0].item()
        error = math.sqrt(max(expected * (1 - expected), 1e-12) / (count * length))
        assert abs(share - expected) <= 5 * error + 1e-9
        hidden_again += int((frame.changed & (frame.tokens == V)).sum())
    assert hidden_again > 0


def test_the_loop_stays_at_its_share():
    frames = list(
        trajectory(
            predictor(), PROCESS, torch.full((400, 24), V), uniform_grid(40), Streams(4, 400), "remask-loop", eta=0.1
        )
    )
    held = [(f.tokens == V).double().mean().item() for f in frames if 0.1 < 1 - f.step / 40 < 0.5]
    assert max(abs(share - 0.1) for share in held) < 0.02


def test_blocks_fill_what_is_longer_than_the_window():
    x = torch.full((3, 29), V)
    x[:, 0] = torch.tensor([0, 1, 2])
    widths = []

    def denoise(x, t, condition=None):
        widths.append(x.shape[1])
        return LAW.denoiser(PROCESS)(x, t, condition)

    predict = Predictor(denoise, V)
    frames = list(trajectory(predict, PROCESS, x, uniform_grid(8), Streams(0, 3), window=N))
    assert set(widths) == {N}
    assert (frames[-1].tokens < V).all()
    assert torch.equal(frames[-1].tokens[:, 0], x[:, 0])
    for before, after in itertools.pairwise(frames):
        revealed = before.tokens != V
        assert torch.equal(after.tokens[revealed], before.tokens[revealed])


@pytest.mark.parametrize("name", ["ancestral", "tau-leaping"])
def test_what_is_left_over_is_drawn_block_by_block(name):
    """This schedule ends with many positions masked: they are filled within their own window, before the next window
    begins.
    """
    process, widths = Process(Shifted(Linear(), 0.4), V), []

    def denoise(x, t, condition=None):
        widths.append(x.shape[1])
        return LAW.denoiser(process)(x, t, condition)

    x = torch.full((3, 29), V)
    for frame in trajectory(Predictor(denoise, V), process, x, uniform_grid(8), Streams(0, 3), name, window=N):
        if (frame.tokens[:, N:] < V).any():
            assert (frame.tokens[:, :N] < V).all()
    assert (frame.tokens < V).all()
    assert set(widths) == {N}


def test_rows_that_fit_need_no_context():
    x, grid = torch.full((2, 1), V), uniform_grid(3)
    whole = sample(predictor(), PROCESS, x, grid, Streams(0, 2)).tokens
    assert torch.equal(sample(predictor(), PROCESS, x, grid, Streams(0, 2), window=1).tokens, whole)
    with pytest.raises(ValueError, match="leaves no context"):
        sample(predictor(), PROCESS, torch.full((2, 2), V), grid, Streams(0, 2), window=1)


def test_halton_covers_every_position_once():
    for shape in ((16,), (5, 7), (8, 8, 3)):
        ranks = halton_ranks(shape)
        assert sorted(ranks.tolist()) == list(range(math.prod(shape)))
    first = (halton_ranks((32, 32)).view(32, 32) < 16).nonzero().double()  # sixteen points of 1024
    distance = (first[:, None] - first[None]).norm(dim=-1) + 1e9 * torch.eye(16)
    assert distance.min() > 4


def test_guidance_is_the_normalised_product():
    a, b = (torch.randn(5, 7, generator=torch.Generator().manual_seed(s)).double() for s in (0, 1))
    for g in (0.0, 1.0, 2.5):
        expected = a.softmax(-1) ** g * b.softmax(-1) ** (1 - g)
        found = guided(a, b, torch.full((5,), g, dtype=torch.float64))
        torch.testing.assert_close(found.softmax(-1), expected / expected.sum(-1, keepdim=True))
        torch.testing.assert_close(found.logsumexp(-1), a.logsumexp(-1))  # SEDD's samplers use the sum


def test_guidance_cannot_rise_where_nothing_is_masked():
    rising = Guidance(2.0, lambda x, condition, samples: (x, condition), rising=True)  # noqa: ARG005
    with pytest.raises(ValueError, match="guidance cannot rise here"):
        Predictor(lambda x, t, condition: x, V, guidance=rising, family=UNIFORM)  # noqa: ARG005


def test_guidance_within_a_sampler():
    """Strength 1 is the condition as trained, 0 is no condition; rising guidance starts at 1."""
    network = TransformerConfig(V, 1, 2, 16, conditioning=Conditioning(classes=3)).build()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)))
    label, none = torch.tensor([0, 1, 2, 1]), torch.full((4,), 3)
    x, grid, streams = torch.full((4, N), V), uniform_grid(6), Streams(0, 4)

    def tokens(condition, guidance=None):
        return sample(Predictor(network, V, condition, guidance=guidance), PROCESS, x, grid, streams).tokens

    def guide(g, rising=False):
        return Guidance(g, lambda x, condition, samples: (x, none[samples]), rising)  # noqa: ARG005

    assert torch.equal(tokens(label, guide(1.0)), tokens(label))
    assert torch.equal(tokens(label, guide(0.0)), tokens(none))
    assert not torch.equal(tokens(label, guide(6.0)), tokens(label))
    assert Guidance(3.0, guide(1).without, rising=True).strengths(torch.tensor([1.0, 0.5, 0.0])).tolist() == [1, 2, 3]


def test_gradients_are_off_only_while_a_frame_is_made():
    """Two interleaved trajectories, one of them abandoned, must not change the caller's gradient setting."""
    inside = []

    def denoise(x, t, condition=None):
        inside.append(torch.is_grad_enabled())
        return LAW.denoiser(PROCESS)(x, t, condition)

    def begin():
        return trajectory(Predictor(denoise, V), PROCESS, torch.full((2, N), V), uniform_grid(4), Streams(0, 2))

    first, second = begin(), begin()
    for _ in zip(first, second, range(3), strict=False):
        assert torch.is_grad_enabled()
    for _ in first:
        assert torch.is_grad_enabled()
    del first, second
    assert torch.is_grad_enabled()
    assert inside
    assert not any(inside)


def test_networks_that_see_the_time_are_shown_it():
    shown = []

    def denoise(x, t, condition=None):
        shown.append(t.clone())
        return LAW.denoiser(PROCESS)(x, t, condition)

    sample(Predictor(denoise, V), PROCESS, torch.full((1, N), V), uniform_grid(4), Streams(0, 1))
    assert {round(t.item(), 6) for t in torch.cat(shown)} <= {1.0, 0.75, 0.5, 0.25}


WRONG = {
    "unknown sampler": ("ancestrl", PROCESS, True, {}, "did you mean ancestral"),
    "no such option": ("ancestral", PROCESS, True, {"eta": 1}, "has no such option"),
    "a scalar sampler for GenMD4": (
        "first-hitting",
        process_for("thinning"),
        True,
        {},
        "use ancestral, thinning or race",
    ),
    "thinning for a cosine": ("thinning", Process(Cosine(), V), True, {}, "is not defined for this schedule"),
    "speculation with time": ("speculative", PROCESS, False, {}, "does not see the time"),
    "eta": ("remask-cap", PROCESS, True, {"eta": 2.0}, "eta is out of range"),
    "noise": ("confidence", PROCESS, True, {"noise": -1.0}, "noise is negative"),
    "tokens per call": ("first-hitting", PROCESS, True, {"tokens_per_call": 0}, "tokens_per_call is not positive"),
    "loop": ("remask-loop", PROCESS, True, {"on": 0.1, "off": 0.5}, "the loop's options are out of range"),
}


@pytest.mark.parametrize(("name", "process", "time_free", "options", "message"), WRONG.values(), ids=WRONG.keys())
def test_what_does_not_fit_is_said_in_one_line(name, process, time_free, options, message):
    with pytest.raises(ValueError, match=message):
        list(
            trajectory(
                predictor(process, time_free), process, prompts(2), uniform_grid(3), Streams(0, 2), name, **options
            )
        )


def test_filters_are_checked_before_anything_runs():
    with pytest.raises(ValueError, match="temperature"):
        Predictor(LAW.denoiser(PROCESS), V, temperature=-1.0)


def test_every_sampler_is_described():
    for sampler in SAMPLERS.values():
        assert sampler.summary
        assert sampler.law in LAWS
        assert dataclasses.is_dataclass(sampler)
