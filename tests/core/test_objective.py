"""The bounds themselves, as finite sums, against laws whose answers are known."""

import itertools
import math
from functools import partial

import pytest
import torch

from unmask.core import (
    Draw,
    Geometric,
    Linear,
    Polynomial,
    Process,
    Shifted,
    TokenPolynomial,
    cosine_grid,
    generalized_nelbo,
    generalized_steps_nelbo,
    nelbo,
    prior,
    reconstruction,
    uniform_grid,
)
from unmask.core.exact import (
    TableLaw,
    continuous_time,
    exact_k,
    exact_nelbo,
    log_snr,
    steps,
    token_continuous_time,
    token_steps,
)
from unmask.core.exact.forms import all_masks

from .laws import COMPLETE, CORRELATED_BITS, INCOMPLETE, SCHEDULES, W, column

LAW = TableLaw.random(3, 3, seed=1)
SEQUENCES = LAW.sequences()
FORMS = {"continuous": partial(continuous_time, nodes=320), "log-SNR": log_snr, "exact-k": exact_k}
every_form = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())


def value(law, process, x_0, draw, denoiser=None, objective=nelbo):
    return exact_nelbo(denoiser or law.denoiser(process), x_0, draw, process, objective).total.item()


def token_value(law, process, x_0, denoiser=None):
    objective = partial(generalized_nelbo, process=process)
    return value(law, process, x_0, token_continuous_time(process, x_0), denoiser, objective)


def perturbed(denoiser, strength=0.5):
    """Another denoiser: the exact one with fixed nonsense added to its logits."""

    def denoise(x_t, t, condition=None):
        logits = denoiser(x_t, t, condition)
        return logits + strength * torch.sin(7.0 * torch.arange(logits.shape[-1]) + x_t.sum(-1)[:, None, None])

    return denoise


@every_form
@pytest.mark.parametrize("name", COMPLETE)
def test_exact_denoiser_makes_the_bound_tight(name, form):
    """NELBO(x) = −log p(x) for each x, whatever the schedule and the form."""
    process = Process(COMPLETE[name], 3)
    for x_0 in SEQUENCES:
        assert value(LAW, process, x_0, form(process, x_0)) == pytest.approx(-LAW.log_prob(x_0[None]).item(), abs=1e-10)


@pytest.mark.parametrize("name", INCOMPLETE)
def test_incomplete_schedules_pay_for_their_ends_and_no_more(name):
    """With the integral beyond the ends put back in place of the end terms the bound is tight again.

    The end terms describe another model (it guesses uniformly there), so a single x may cost a little less
    than −log p(x); on average over x it cannot.
    """
    process, everywhere = Process(INCOMPLETE[name], 3), Process(Linear(), 3)
    ends = process.schedule.mask_prob(column(0.0, 1.0))
    mean_gap = 0.0
    for x_0 in SEQUENCES:
        log_p = LAW.log_prob(x_0[None]).item()
        parts = exact_nelbo(LAW.denoiser(process), x_0, continuous_time(process, x_0, nodes=640), process)
        missing = beyond(everywhere, x_0, 0.0, ends[0].item()) + beyond(everywhere, x_0, ends[1].item(), 1.0)
        assert parts.diffusion.item() + missing == pytest.approx(-log_p, abs=1e-7)
        mean_gap += math.exp(log_p) * (parts.total.item() + log_p)
    assert mean_gap > 0


def beyond(process, x_0, low, high):
    """∫_low^high (1/λ) E[Σ masked loss] dλ over mask probabilities λ, by the midpoint rule."""
    edges = torch.linspace(low, high, 101, dtype=torch.float64)
    middle = (edges[1:] + edges[:-1]) / 2
    masks = all_masks(3)
    t = middle.repeat_interleave(len(masks))
    mask = masks.repeat(len(middle), 1)
    x = x_0.expand(len(t), -1)
    q = process.log_q(process.hide(x, mask), x, t).sum(1).exp()
    zero = torch.zeros_like(t)
    draw = Draw(t, mask, q * (edges[1] - edges[0]) / t, zero, zero, zero)
    return exact_nelbo(LAW.denoiser(process), x_0, draw, process).total.item()


@pytest.mark.parametrize("w", [W, column(0.3, 0.3, 4.0), column(5.0, 1.0, 0.5)], ids=str)
def test_genmd4_is_tight_too(w):
    process = Process(TokenPolynomial(w), 3)
    for x_0 in SEQUENCES:
        assert token_value(LAW, process, x_0) == pytest.approx(-LAW.log_prob(x_0[None]).item(), abs=1e-10)


@every_form
@pytest.mark.parametrize("name", SCHEDULES)
def test_any_other_denoiser_is_above_on_average(name, form):
    process = Process(SCHEDULES[name], 3)
    other = perturbed(LAW.denoiser(process))
    p = LAW.log_probs.exp().flatten()
    mean = sum(p[i].item() * value(LAW, process, x, form(process, x), other) for i, x in enumerate(SEQUENCES))
    assert mean > LAW.entropy() + 0.01


def test_any_other_genmd4_denoiser_is_above_on_average():
    process = Process(TokenPolynomial(W), 3)
    p = LAW.log_probs.exp().flatten()
    others = perturbed(LAW.denoiser(process)), LAW.denoiser(Process(Linear(), 3))  # the second one ignores time
    for other in others:
        mean = sum(p[i].item() * token_value(LAW, process, x, other) for i, x in enumerate(SEQUENCES))
        assert mean > LAW.entropy() + 1e-3


@every_form
def test_two_correlated_bits(form):
    """H = log 2. A *joint* prediction in place of the marginals would report ½ log 2, below the entropy."""
    for schedule in COMPLETE.values():
        process = Process(schedule, 2)
        for x_0 in torch.tensor([[0, 0], [1, 1]]):
            assert value(CORRELATED_BITS, process, x_0, form(process, x_0)) == pytest.approx(math.log(2), abs=1e-10)
    process = Process(Linear(), 2)
    draw = exact_k(process, torch.tensor([0, 0]))
    joint_loss = torch.where(draw.mask.all(1), math.log(2), 0.0)  # −log p(x1, x2 | nothing), 0 given one bit
    assert (draw.weight * joint_loss).sum().item() == pytest.approx(0.5 * math.log(2))


@pytest.mark.parametrize("name", COMPLETE)
def test_the_value_does_not_depend_on_the_schedule(name):
    """For any denoiser that ignores time, not only the exact one."""
    reference, process = Process(Linear(), 3), Process(COMPLETE[name], 3)
    other = perturbed(LAW.denoiser(reference))
    for x_0 in SEQUENCES[::5]:
        truth = value(LAW, reference, x_0, exact_k(reference, x_0), other)
        for form in FORMS.values():
            assert value(LAW, process, x_0, form(process, x_0), other) == pytest.approx(truth, abs=1e-9)


def loss_at(process, x_0, mask_prob):
    """ℓ: the mean loss of a masked token when each token is masked with this probability, times N."""
    masks = all_masks(3)[1:]
    t = column(mask_prob).expand(len(masks))
    x = x_0.expand(len(masks), -1)
    q = process.log_q(process.hide(x, masks), x, t).sum(1).exp()
    zero = torch.zeros_like(t)
    return exact_nelbo(
        LAW.denoiser(process), x_0, Draw(t, masks, q / mask_prob, zero, zero, zero), process
    ).total.item()


def test_t_step_bound_tends_to_the_continuous_one():
    """For the linear schedule L_T − L_∞ = (ℓ(1) − ℓ(0))/(2T) + O(T^-2)."""
    process = Process(Linear(), 3)
    for x_0 in SEQUENCES[::4]:
        slope = (loss_at(process, x_0, 1.0) - loss_at(process, x_0, 1e-9)) / 2
        truth = -LAW.log_prob(x_0[None]).item()
        gaps = {T: value(LAW, process, x_0, steps(process, x_0, uniform_grid(T))) - truth for T in (32, 64, 128)}
        for T, gap in gaps.items():
            assert gap * T == pytest.approx(slope, abs=2.0 / T)
        assert gaps[32] / gaps[64] == pytest.approx(2, abs=0.1)
        assert gaps[64] / gaps[128] == pytest.approx(2, abs=0.05)


@pytest.mark.parametrize("grid", [uniform_grid, cosine_grid])
@pytest.mark.parametrize("name", SCHEDULES)
def test_t_step_bound_is_above_and_shrinks(name, grid):
    process = Process(SCHEDULES[name], 3)
    p = LAW.log_probs.exp().flatten()

    def mean(T):
        return sum(p[i].item() * value(LAW, process, x, steps(process, x, grid(T))) for i, x in enumerate(SEQUENCES))

    coarse, middle, fine = mean(4), mean(32), mean(256)
    assert coarse > middle > fine > LAW.entropy()


def test_the_papers_reconstruction_is_the_grid_without_zero():
    """App. D: −E log p(x_0 | x_t(1)) = N(1−α_t(1)) log V, and i = 1 is not among the steps."""
    process, x_0, T = Process(Linear(), 3), SEQUENCES[5], 8
    with_zero = exact_nelbo(LAW.denoiser(process), x_0, steps(process, x_0, uniform_grid(T)), process)
    paper = exact_nelbo(LAW.denoiser(process), x_0, steps(process, x_0, uniform_grid(T)[:-1]), process)
    assert with_zero.reconstruction.item() == 0
    assert paper.reconstruction.item() == pytest.approx(3 / T * math.log(3))
    assert with_zero.diffusion - paper.diffusion == pytest.approx(loss_at(process, x_0, 1 / T) / T)


def test_end_terms():
    x_0 = torch.tensor([[0, 2, 1, 1]])
    process = Process(Geometric(1e-3, 5.0), 3)
    assert reconstruction(process, x_0, 0.0).item() == pytest.approx(4 * -math.expm1(-1e-3) * math.log(3))
    assert prior(process, x_0, 1.0).item() == pytest.approx(4 * math.exp(-5.0) * math.log(3))
    valid = torch.tensor([[True, False, False, True]])
    assert prior(process, x_0, 1.0, valid).item() == pytest.approx(2 * math.exp(-5.0) * math.log(3))
    complete = Process(Polynomial(2.0), 3)
    assert reconstruction(complete, x_0, 0.0).item() == 0
    assert prior(complete, x_0, 1.0).item() == 0


def test_genmd4_end_terms_are_kls():
    """Against sums over all V+1 states: Σ_k q(k|x) log q(k|x)/Σ_j q(k|j), and KL(q ‖ p) with p from App. E."""
    schedule = Shifted(TokenPolynomial(W), 0.05)
    process, x_0, t = Process(schedule, 3), torch.tensor([[0, 1, 2]]), 0.2
    q = torch.cat([torch.diag(schedule.alpha(column(t))[0]), 1 - schedule.alpha(column(t)).T], dim=1)  # [x_0, state]
    by_hand = -torch.where(q > 0, q * (q / q.sum(0)).log(), 0.0).sum()
    assert reconstruction(process, x_0, t).item() == pytest.approx(by_hand.item())
    p = q.mean(0)
    kl = torch.where(q > 0, q * (q / p).log(), 0.0).sum()
    assert prior(process, x_0, t).item() == pytest.approx(kl.item())


@pytest.mark.parametrize(
    "grid", [uniform_grid(6), uniform_grid(6)[:-1], cosine_grid(5)], ids=["uniform", "paper", "cos"]
)
@pytest.mark.parametrize("schedule", [TokenPolynomial(W), Shifted(TokenPolynomial(W), 0.1)], ids=["plain", "shifted"])
def test_genmd4_t_step_is_a_sum_of_kls(schedule, grid):
    """Against Σ_i E_q KL(q(x_s|x_t,x_0) ‖ p(x_s|x_t)) spelt out with the process's own log-probabilities."""
    process, x_0 = Process(schedule, 3), torch.tensor([2, 0, 0])
    denoiser = perturbed(LAW.denoiser(process))
    got = exact_nelbo(
        denoiser, x_0, token_steps(process, x_0, grid), process, partial(generalized_steps_nelbo, process=process)
    )
    total = 0.0
    for t, s in itertools.pairwise(grid):
        for mask in all_masks(3):
            x_t = process.hide(x_0, mask)[None]
            weight = process.log_q(x_t, x_0[None], t[None]).sum().exp()
            logits = denoiser(x_t, t[None])[mask[None]]
            for reveal in all_masks(3):
                if (reveal & ~mask).any():
                    continue
                x_s = torch.where(reveal, x_0, x_t)
                log_q = process.log_q_reverse(x_s, x_t, x_0[None], s[None], t[None]).sum()
                log_p = process.log_p_reverse(x_s, x_t, logits, s[None], t[None])
                # p sums over all tokens where q knows x_0: the KL per position needs p's own mass
                if log_q > -math.inf:
                    total += (weight * log_q.exp() * (log_q - log_p.sum())).item()
    assert got.diffusion.item() == pytest.approx(total, rel=1e-9)


def test_genmd4_t_step_tends_to_continuous_time():
    process, x_0 = Process(TokenPolynomial(W), 3), SEQUENCES[7]
    objective = partial(generalized_steps_nelbo, process=process)
    truth = -LAW.log_prob(x_0[None]).item()
    gaps = [
        value(LAW, process, x_0, token_steps(process, x_0, uniform_grid(T)), objective=objective) - truth
        for T in (256, 512)
    ]
    assert gaps[0] / gaps[1] == pytest.approx(2, abs=0.35)  # w < 1 spoils the clean 1/T a little
    assert abs(gaps[1]) < 5e-3


def test_padding_never_counts_and_shape_does_not_matter():
    process = Process(Linear(), 3)
    x = torch.tensor([[0, 1, 2, 2, 1, 0]])
    mask = torch.tensor([[True, False, True, False, False, True]])
    logits = torch.randn(3, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    one = torch.ones(1, dtype=torch.float64)
    flat = nelbo(logits, x, Draw(one, mask, 2 * one, 0 * one, 0 * one, 0 * one)).total
    image = nelbo(logits, x.view(1, 2, 3), Draw(one, mask.view(1, 2, 3), 2 * one, 0 * one, 0 * one, 0 * one)).total
    by_hand = -2 * logits.log_softmax(-1).gather(1, x[mask][:, None]).sum()
    torch.testing.assert_close(flat[0], by_hand)
    assert torch.equal(flat, image)
    assert process.hide(x, mask).tolist() == [[3, 1, 3, 2, 1, 3]]


def test_bfloat16_logits_are_lossless_from_there():
    logits = torch.randn(50, 300, generator=torch.Generator().manual_seed(0)).bfloat16()
    x = torch.arange(50)[None]
    one = torch.ones(1, dtype=torch.float64)
    draw = Draw(one, torch.ones_like(x).bool(), one, 0 * one, 0 * one, 0 * one)
    precise = nelbo(logits.double(), x, draw).total
    torch.testing.assert_close(nelbo(logits, x, draw).total.double(), precise, rtol=1e-6, atol=0)
