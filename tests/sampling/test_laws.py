"""The law of every sampler, against an oracle that knows the truth.

Statistical tests compare 40,000 samples with exact probabilities by chi-square; each fails by chance with at
most 1e-6.
"""

import itertools

import pytest
import torch

from tests.core.laws import chi_square, sequence_counts
from unmask.core import Cosine, Linear, Polynomial, Process, Streams, cosine_grid, uniform_grid
from unmask.run.bench_sample import straightforward
from unmask.sampling import SAMPLERS, Predictor, sample, trajectory

from .oracle import SCALAR, TABLE, TOKENS, N, V, chain, law_of_race, law_with_steps, outcomes

MANY, ALARM = 40_000, 1e-6


def draw(name, process=SCALAR, grid=None, count=MANY, seed=0, x=None, law=TABLE, **options):
    """Samples of the oracle's law by a sampler."""
    predict = Predictor(law.denoiser(process), process.mask_id)
    predict.sees_time = process.schedule.per_token  # with one schedule for all the oracle does not look at the time
    x = torch.full((count, N), process.mask_id) if x is None else x
    grid = uniform_grid(8) if grid is None else grid
    return sample(predict, process, x, grid, Streams(seed, len(x)), name, **options)


def p_value(tokens, probs):
    return chi_square(sequence_counts(tokens, V), probs)


@pytest.mark.parametrize("name", ["first-hitting", "speculative"])
@pytest.mark.parametrize("schedule", [Linear(), Cosine(), Polynomial(2.5)], ids=repr)
def test_without_steps_the_law_is_the_models(name, schedule):
    tokens = draw(name, Process(schedule, V)).tokens
    assert p_value(tokens, outcomes()[1]) > ALARM


@pytest.mark.parametrize("drafts", [1, 2, 3, 7])
def test_speculation_changes_nothing(drafts):
    assert p_value(draw("speculative", drafts=drafts, seed=drafts).tokens, outcomes()[1]) > ALARM


@pytest.mark.parametrize("w", [[0.6, 2.2], [1.0, 1.0]], ids=["unequal", "equal"])
def test_thinning_is_exact(w):
    process = Process(type(TOKENS.schedule)(torch.tensor(w, dtype=torch.float64)), V)
    assert p_value(draw("thinning", process).tokens, outcomes()[1]) > ALARM


@pytest.mark.parametrize("name", ["race", "thinning"])
def test_a_race_is_exact_for_networks_without_time(name):
    """The oracle of one schedule for all does not look at the time, and is not the best denoiser here: its law under
    GenMD4 is not the table's, and is known by summing over all orders.
    """
    exact = law_of_race(TOKENS.schedule.w, TABLE.denoiser(SCALAR))
    assert (exact - outcomes()[1]).abs().sum() > 0.05
    predict, x = Predictor(TABLE.denoiser(SCALAR), SCALAR.mask_id), torch.full((MANY, N), SCALAR.mask_id)
    predict.sees_time = False
    drawn = sample(predict, TOKENS, x, uniform_grid(8), Streams(0, MANY), name)
    assert p_value(drawn.tokens, exact) > ALARM
    if name == "race":
        assert drawn.calls == N


def test_a_race_of_equals_is_first_hitting():
    assert p_value(draw("race", Process(Polynomial(2.5), V)).tokens, outcomes()[1]) > ALARM


@pytest.mark.parametrize("name", ["ancestral", "two-step", "joint"])
@pytest.mark.parametrize("grid", [uniform_grid(1), uniform_grid(3), cosine_grid(4)], ids=["1", "3", "cosine 4"])
def test_with_steps_the_law_is_that_of_the_steps(name, grid):
    """Computed by summing over all paths; with so few tokens even the float32 draw is right."""
    exact = law_with_steps(SCALAR, TABLE.denoiser(SCALAR), grid)
    assert p_value(draw(name, grid=grid).tokens, exact) > ALARM


def test_the_straightforward_implementation_has_the_same_law():
    """What `unmask bench sample` measures against."""
    grid, x = uniform_grid(3), torch.full((MANY, N), SCALAR.mask_id)
    *_, tokens = straightforward(TABLE.denoiser(SCALAR), SCALAR, x, grid, torch.Generator().manual_seed(0))
    assert p_value(tokens, law_with_steps(SCALAR, TABLE.denoiser(SCALAR), grid)) > ALARM


def test_genmd4_with_steps():
    grid = uniform_grid(3)
    exact = law_with_steps(TOKENS, TABLE.denoiser(TOKENS), grid)
    assert p_value(draw("ancestral", TOKENS, grid).tokens, exact) > ALARM


def test_genmd4_with_equal_exponents_is_md4():
    equal = Process(type(TOKENS.schedule)(torch.ones(V, dtype=torch.float64)), V)
    grid = uniform_grid(4)
    same = draw("ancestral", equal, grid, 500).tokens == draw("ancestral", SCALAR, grid, 500).tokens
    assert same.all()


@pytest.mark.parametrize("name", ["euler", "tau-leaping"])
def test_approximate_chances(name):
    """These reveal by other chances than the process's; their own law is matched, and differs from the exact one."""
    grid = uniform_grid(3)

    def chance(s, t):
        rate = -(t - s) * SCALAR.schedule.loss_weight(t)
        return rate.clamp(max=1) if name == "euler" else -torch.expm1(-rate)

    tokens = draw(name, grid=grid).tokens
    assert p_value(tokens, law_with_steps(SCALAR, TABLE.denoiser(SCALAR), grid, chance)) > ALARM


def test_more_steps_come_nearer():
    """Total variation between T steps and the truth, exactly: it shrinks like 1/T."""
    truth = outcomes()[1]
    distance = [
        0.5 * (law_with_steps(SCALAR, TABLE.denoiser(SCALAR), uniform_grid(steps)) - truth).abs().sum().item()
        for steps in (1, 2, 4, 8, 16)
    ]
    assert all(b < 0.75 * a for a, b in itertools.pairwise(distance)), distance


@pytest.mark.parametrize("name", ["remask-cap", "remask-rescale", "forward-backward", "dfm-corrector"])
def test_correctors_come_nearer_to_the_model_than_they_started(name):
    """With many steps all of them have the model's law: hiding and revealing leaves it as it is."""
    options = {"eta": 0.3} if "remask" in name else {}
    assert p_value(draw(name, grid=uniform_grid(200), count=20_000, **options).tokens, outcomes()[1]) > ALARM


BIASED = {
    "confidence": {"noise": 0.0},
    "margin": {},
    "entropy": {},
    "threshold": {"probability": 0.5},
    "entropy-bounded": {"gamma": 5.0},
}


@pytest.mark.parametrize("name", BIASED)
def test_biased_samplers_are_biased_and_say_so(name):
    assert SAMPLERS[name].law == "biased"
    tokens = draw(name, grid=uniform_grid(2), **BIASED[name]).tokens
    assert p_value(tokens, outcomes()[1]) < ALARM


def test_one_at_a_time_any_order_is_exact():
    """Bounds and thresholds that let one position through per call, and Halton with a step for each."""
    truth = outcomes()[1]
    assert p_value(draw("halton", grid=uniform_grid(N)).tokens, truth) > ALARM
    assert p_value(draw("entropy-bounded", gamma=0.0).tokens, truth) > ALARM
    assert p_value(draw("threshold", probability=1.0).tokens, truth) > ALARM


def test_several_tokens_per_call_are_not_exact():
    assert p_value(draw("first-hitting", tokens_per_call=3).tokens, outcomes()[1]) < ALARM


def test_hitting_times_are_order_statistics():
    """With the linear schedule the times at which N positions are revealed are N sorted uniforms."""
    count, length = 4000, 5
    law, process = chain(), Process(Linear(), 4)
    predict = Predictor(law.denoiser(process), 4)
    frames = trajectory(
        predict, process, torch.full((count, length), 4), uniform_grid(1), Streams(3, count), "first-hitting"
    )
    times = torch.stack([frame.t for frame in frames][1:-1], 1)  # after each but the last
    mean = torch.arange(length, 1, -1, dtype=torch.float64) / (length + 1)
    error = (mean * (1 - mean) / (length + 2) / count).sqrt()
    assert ((times.mean(0) - mean).abs() < 5.5 * error).all()
    assert (times.diff(dim=1) < 0).all()


def test_infilling_has_the_conditional_law():
    """Given the middle bit, the others follow their conditional law, for every exact sampler."""
    x, p = outcomes()
    given = p * (x[:, 1] == 1)
    start = torch.tensor([[V, 1, V]]).expand(MANY, -1).clone()
    for name in ("first-hitting", "speculative", "halton"):
        tokens = draw(name, grid=uniform_grid(N), x=start).tokens
        assert chi_square(sequence_counts(tokens, V)[x[:, 1] == 1], given[x[:, 1] == 1] / given.sum()) > ALARM
