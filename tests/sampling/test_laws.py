"""The distribution of every sampler against an oracle with exact probabilities.

Statistical tests compare 40,000 or 10,000 samples with exact probabilities by chi-square; the false alarm rate of each
is at most 1e-6.
"""

import itertools

import pytest
import torch

from tests.core.laws import chi_square, sequence_counts
from unmask.core import Cosine, Custom, Linear, Polynomial, Process, Streams, cosine_grid, uniform_grid
from unmask.run.bench_sample import straightforward
from unmask.sampling import CAUSAL, MASKED, SAMPLERS, Predictor, sample, trajectory
from unmask.sampling.samplers import EXACT, NEARS, PERFECT, POLYNOMIAL, STEPS

from .oracle import (
    SCALAR,
    TABLE,
    TOKENS,
    N,
    V,
    chain,
    disagreeing,
    law_in_order,
    law_of_race,
    law_with_steps,
    outcomes,
)

MANY, ALARM = 40_000, 1e-6
ETA = 0.1
"""The share that samplers remask."""


def draw(name, process=SCALAR, grid=None, count=MANY, seed=0, x=None, law=TABLE, **options):
    """Samples of the oracle's distribution by a sampler."""
    predict = Predictor(law.denoiser(process), process.mask_id)
    predict.sees_time = process.schedule.per_token  # with a single schedule the oracle ignores the time
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
    """The oracle of a single schedule ignores the time and is not the best denoiser here: its distribution under
    GenMD4 is not the table's, and is computed by summing over all orders.
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
    """Computed by summing over all paths; with so few tokens even the float32 draw is accurate."""
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


STEEP = Process(Custom(lambda t: (1 - t) ** 0.5), V)
"""The unmasking rate is infinite at t = 1."""


@torch.no_grad()
def approximate(name, process, grid):
    """The distribution of a sampler that uses the rate at the start of a step, or at its middle if that is infinite."""

    def chance(s, t):
        rate = -(t - s) * process.schedule.loss_weight((s + t) / 2 if process is STEEP and t[0] == 1 else t)
        return rate.clamp(max=1) if name == "euler" else -torch.expm1(-rate)

    return law_with_steps(process, TABLE.denoiser(process), grid, chance)


@pytest.mark.parametrize("process", [SCALAR, STEEP], ids=["linear", "steep"])
@pytest.mark.parametrize("name", ["euler", "tau-leaping"])
def test_approximate_chances(name, process):
    """These samplers reveal with other probabilities than the process; their samples match their own distribution,
    which approaches the true one.
    """
    grid = uniform_grid(3)
    assert p_value(draw(name, process, grid).tokens, approximate(name, process, grid)) > ALARM
    truth = outcomes()[1]
    distance = [(approximate(name, process, uniform_grid(steps)) - truth).abs().sum() for steps in (8, 32, 128)]
    assert all(b < 0.6 * a for a, b in itertools.pairwise(distance)), distance


def test_more_steps_come_nearer():
    """The exact total variation between T steps and the true distribution shrinks like 1/T."""
    truth = outcomes()[1]
    distance = [
        0.5 * (law_with_steps(SCALAR, TABLE.denoiser(SCALAR), uniform_grid(steps)) - truth).abs().sum().item()
        for steps in (1, 2, 4, 8, 16)
    ]
    assert all(b < 0.75 * a for a, b in itertools.pairwise(distance)), distance


def called(*laws):
    """The samplers of masked models with one of these laws; those of other families are tested elsewhere."""
    return [name for name, sampler in SAMPLERS.items() if sampler.law in laws and MASKED in sampler.families]


def contradictory(name, process=SCALAR, **options):
    """Samples of a network whose predictions contradict each other from order to order."""
    predict, x = Predictor(disagreeing, V), torch.full((10_000, N), V)
    predict.sees_time = False
    return sample(predict, process, x, uniform_grid(50), Streams(0, len(x)), name, **options).tokens


@pytest.mark.parametrize("name", called(EXACT, STEPS, NEARS))
def test_the_law_is_the_models_whatever_it_predicts(name):
    """Computed by summing over all orders; 50 steps change it by less than 0.01, which 10,000 samples cannot show."""
    tokenwise = SAMPLERS[name].schedules == POLYNOMIAL
    process, w = (TOKENS, TOKENS.schedule.w) if tokenwise else (SCALAR, torch.ones(V))
    assert p_value(contradictory(name, process), law_of_race(w, disagreeing)) > ALARM


@pytest.mark.parametrize("name", called(PERFECT))
def test_right_for_a_perfect_denoiser_and_for_no_other(name):
    options = {"eta": ETA} if "remask" in name else {}
    assert p_value(draw(name, grid=uniform_grid(200), count=10_000, **options).tokens, outcomes()[1]) > ALARM
    assert p_value(contradictory(name, **options), law_of_race(torch.ones(V), disagreeing)) < ALARM


def test_models_that_read_in_order_have_one_law():
    """No other order is defined for autoregressive models; only for them is `left-to-right` called exact."""
    assert p_value(contradictory("left-to-right"), law_in_order(disagreeing)) > ALARM
    assert SAMPLERS["left-to-right"].law_of(CAUSAL) == EXACT
    assert SAMPLERS["left-to-right"].law_of(MASKED) == PERFECT


HIDE = {
    "remask-cap": lambda s, t: (s / (1 - t)).clamp(max=ETA),
    "remask-rescale": lambda s, t: ETA * (s / (1 - t)).clamp(max=1),
    "remask-loop": lambda s, t: torch.where(s < t, 0.0, (s / (1 - t)).clamp(max=ETA)),
    "forward-backward": lambda s, t: ((t - s) / (1 - t)).minimum((s / (1 - t)).clamp(max=1)),
    "dfm-corrector": lambda s, t: ((t - s) / (1 - t)).minimum((s / (1 - t)).clamp(max=1)),
}
"""The probability that a revealed position is masked again under the linear schedule, where α_t = 1 − t."""


def remasked(name, steps):
    """The distribution of a remasking sampler with the perfect denoiser, by summing over all paths."""

    def hide(s, t):
        return HIDE[name](s, t).nan_to_num(nan=0.0)

    def chance(s, t):
        return ((1 - s) - (1 - hide(s, t)) * (1 - t)) / t

    t = uniform_grid(steps)
    if name == "remask-loop":  # its own path: α rises to 0.9 at t = 0.55, stays until t = 0.05, then rises to 1
        t = torch.where(t > 0.55, 1 - 0.9 * (1 - t) / 0.45, torch.where(t > 0.05, 1 - 0.9, (1 - 0.9) * t / 0.05))
    return law_with_steps(SCALAR, TABLE.denoiser(SCALAR), t, chance, hide)


@pytest.mark.parametrize("name", HIDE)
def test_hiding_again_has_the_law_of_its_chances(name):
    options = {"eta": ETA} if "remask" in name else {}
    assert p_value(draw(name, grid=uniform_grid(12), **options).tokens, remasked(name, 12)) > ALARM


@pytest.mark.parametrize("name", HIDE)
def test_correctors_near_the_law_of_a_perfect_denoiser_unless_biased(name):
    """In exact total variation: remasking less and less per step preserves the distribution, a fixed share does not."""
    few, many = (0.5 * (remasked(name, steps) - outcomes()[1]).abs().sum().item() for steps in (64, 512))
    assert (many > 0.9 * few) if SAMPLERS[name].law == "biased" else (many < 0.6 * few)


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


def test_one_at_a_time_any_order_is_right_for_a_perfect_denoiser():
    """Bounds and thresholds that reveal one position per call, and Halton with a step per position."""
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
    """Given the middle bit, the others follow their conditional distribution if one is drawn at a time."""
    x, p = outcomes()
    given = p * (x[:, 1] == 1)
    start = torch.tensor([[V, 1, V]]).expand(MANY, -1).clone()
    for name in ("first-hitting", "speculative", "halton"):
        tokens = draw(name, grid=uniform_grid(N), x=start).tokens
        assert chi_square(sequence_counts(tokens, V)[x[:, 1] == 1], given[x[:, 1] == 1] / given.sum()) > ALARM
