"""The paper's unification on laws whose answers are known: every objective is MD4's bound, or differs as theory says.

Statistical tests fail by chance with at most 1e-6 (five standard errors).
"""

import math

import pytest
import torch

from unmask.baselines import Jump, ScoreEntropy, Unweighted
from unmask.baselines.d3pm import Auxiliary
from unmask.core import (
    ContinuousTime,
    Cosine,
    Geometric,
    Linear,
    Process,
    Steps,
    Streams,
    estimate_nelbo,
    iid,
    uniform_grid,
)
from unmask.core.exact import MarkovLaw, TableLaw, continuous_time, exact_k, exact_nelbo

V, N = 3, 4
GENERATOR = torch.Generator().manual_seed(0)
TABLE = torch.rand(*[V] * N, generator=GENERATOR, dtype=torch.float64).pow(3)
LAW = TableLaw(TABLE / TABLE.sum())
X = torch.tensor([0, 2, 1, 2])
PROCESSES = {"linear": Process(Linear(), V), "cosine": Process(Cosine(), V), "geometric": Process(Geometric(), V)}


def unnormalised(process, amount=0.7):
    """The oracle's μ with logits that sum up to something else at every state."""
    oracle = LAW.denoiser(process)

    def denoiser(x, t, condition=None):
        shift = amount * torch.sin(1.0 + x.double().sum(-1, keepdim=True) + torch.arange(x.shape[-1]))
        return oracle(x, t, condition).log_softmax(-1) + shift[..., None]

    return denoiser


def total(denoiser, draw, process, estimator):
    return exact_nelbo(denoiser, X, draw, process, estimator.nelbo).total


@pytest.mark.parametrize("name", PROCESSES)
def test_score_entropy_with_constrained_scores_is_md4(name):
    """s = α/(1−α)·μ: its bound is −log p(x) with the oracle, as MD4's is."""
    process = PROCESSES[name]
    oracle = LAW.denoiser(process)
    draw = continuous_time(process, X)
    md4 = total(oracle, draw, process, ContinuousTime(process))
    score = total(lambda *a: oracle(*a).log_softmax(-1), draw, process, ScoreEntropy(ContinuousTime(process)))
    torch.testing.assert_close(score, md4, rtol=1e-9, atol=1e-9)
    if name == "linear":  # the others end before everything is masked, and pay for it elsewhere
        torch.testing.assert_close(md4, -LAW.log_prob(X[None])[0], rtol=1e-6, atol=1e-6)


def test_score_entropy_is_the_published_formula():
    """β [Σ s − r log s_x + r log r − r] over all times and masks, with unconstrained scores."""
    process, denoiser = PROCESSES["linear"], unnormalised(PROCESSES["linear"])
    draw = continuous_time(process, X)
    ours = total(denoiser, draw, process, ScoreEntropy(ContinuousTime(process)))
    x = X.expand(len(draw.t), -1)
    log_r = process.schedule.log_snr(draw.t)[:, None]
    log_s = denoiser(process.hide(x, draw.mask), draw.t) + log_r[..., None]
    own = log_s.gather(-1, x[..., None])[..., 0]
    entropy = log_s.exp().sum(-1) - log_r.exp() * (own - log_r + 1)
    beta_over_weight = log_r.exp().reciprocal()  # weight = β·r
    published = (draw.weight[:, None] * beta_over_weight * entropy * draw.mask).nansum()
    torch.testing.assert_close(ours, published, rtol=1e-6, atol=1e-6)


def test_unconstrained_scores_pay_for_their_sum():
    """Score entropy − MD4's bound = E Σ weight·(Z − 1 − log Z) > 0."""
    process, denoiser = PROCESSES["linear"], unnormalised(PROCESSES["linear"])
    draw = continuous_time(process, X)
    md4, score = (
        total(denoiser, draw, process, e) for e in (ContinuousTime(process), ScoreEntropy(ContinuousTime(process)))
    )
    x = X.expand(len(draw.t), -1)
    log_z = denoiser(process.hide(x, draw.mask), draw.t).logsumexp(-1)
    extra = (draw.weight[:, None] * (log_z.exp() - 1 - log_z) * draw.mask).sum()
    assert extra > 0.1
    torch.testing.assert_close(score - md4, extra, rtol=1e-8, atol=1e-8)


def test_any_order_autoregression_is_md4():
    process = PROCESSES["linear"]
    oracle = LAW.denoiser(process)
    orders = total(oracle, exact_k(process, X), process, ContinuousTime(process))
    torch.testing.assert_close(orders, -LAW.log_prob(X[None])[0], rtol=1e-9, atol=1e-9)


# ---------------------------------------------------------------------------------------------- Campbell

CHAIN = MarkovLaw(torch.full((4,), 0.25, dtype=torch.float64), torch.eye(4, dtype=torch.float64) * 0.6 + 0.1)


def spread_of(estimator, process, x, many=20_000):
    """Mean and standard error of one-evaluation estimates, and the standard deviation of one."""
    rows = x.expand(many, -1)
    draw = estimator.draw(rows, Streams(0, many))
    logits = CHAIN.denoiser(process)(process.hide(rows, draw.mask), draw.t)[draw.mask]
    values = estimator.nelbo(logits, rows, draw).total
    return values.mean().item(), (values.std() / many**0.5).item(), values.std().item()


def test_campbells_estimate_is_unbiased_and_noisier():
    """The paper's argument for MD4: the same bound from one token of a sequence instead of all masked ones."""
    process = Process(Linear(), 4)
    x = CHAIN.draw(16, Streams(0, 1))[0]
    exact = -CHAIN.log_prob(x[None])[0].item()
    jump, error, noise = spread_of(Jump(process, iid), process, x)
    _, _, md4 = spread_of(ContinuousTime(process, iid), process, x)
    assert abs(jump - exact) < 5 * error
    assert noise > 1.2 * md4


def test_a_jump_hides_one_more_and_charges_it_alone():
    process = Process(Linear(), 4)
    x = torch.randint(4, (500, 8), generator=torch.Generator().manual_seed(1))
    draw = Jump(process, iid).draw(x, Streams(3, 500))
    before = ContinuousTime(process, iid).draw(x, Streams(3, 500))
    more = draw.mask & ~before.mask
    assert (more.sum(1) == (~before.mask).any(1)).all()
    charged = torch.zeros_like(draw.mask).scatter(1, draw.position[:, None], True)
    assert (more <= charged).all()
    visible = (~before.mask).sum(1)
    torch.testing.assert_close(draw.weight, visible / (1 - draw.t))


def test_rows_of_different_length_never_jump_into_padding():
    process = Process(Linear(), 4)
    x, valid = torch.zeros(200, 6, dtype=torch.int64), torch.arange(6).expand(200, -1) < 3
    draw = Jump(process, iid).draw(x, Streams(0, 200), valid=valid)
    assert not (draw.mask & ~valid).any()


# ---------------------------------------------------------------------------------- MaskGIT, D3PM


def test_maskgit_is_no_bound():
    """Independent uniform tokens: N·(2/π)·log V, below their entropy."""
    process = Process(Cosine(), 4)
    x = torch.zeros(4000, 16, dtype=torch.int64)

    def uniform(x, t, condition=None):
        del t, condition
        return torch.zeros(*x.shape, 4, dtype=torch.float64)

    found = estimate_nelbo(uniform, x, Unweighted(ContinuousTime(process, iid)), draws=1, repeats=4)
    mean, error = found.mean.mean().item(), (found.mean.std() / 4000**0.5).item()
    expected, entropy = 16 * 2 / math.pi * math.log(4), 16 * math.log(4)
    assert abs(mean - expected) < 5 * error
    assert mean < 0.7 * entropy


def test_d3pm_adds_plain_cross_entropy():
    process, x = Process(Linear(), 4), torch.zeros(64, 8, dtype=torch.int64)
    bound = Steps(process, uniform_grid(10))
    plain, more = (e.draw(x, Streams(0, 64)) for e in (bound, Auxiliary(bound, 0.25)))
    assert torch.equal(plain.mask, more.mask)
    torch.testing.assert_close(more.weight, plain.weight + 0.25)
    assert Auxiliary(bound, 0.0).draw(x, Streams(0, 64)).weight.equal(plain.weight)
