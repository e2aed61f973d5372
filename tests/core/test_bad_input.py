"""Every mistake a caller can make gets one sentence: what is wrong, what was got, what is allowed, what to do."""

import pytest
import torch

from unmask.core import (
    BellK,
    ContinuousTime,
    Controlled,
    Custom,
    Draw,
    ExactK,
    Geometric,
    Linear,
    LogSnr,
    Polynomial,
    PowerK,
    Process,
    Shifted,
    Steps,
    Streams,
    TokenDraw,
    TokenPolynomial,
    TokenTime,
    estimate_nelbo,
    filter_logits,
    generalized_nelbo,
    generalized_steps_nelbo,
    inverse_cdf,
    nelbo,
    paired,
    trusted,
    uniform_grid,
)
from unmask.core.exact import MarkovLaw, TableLaw

from .laws import CORRELATED_BITS, column

PROCESS = Process(Linear(), 3)
X = torch.tensor([[0, 1, 2]])
ONE = column(1.0)
ALL = Draw(ONE, torch.ones_like(X).bool(), ONE, 0 * ONE, 0 * ONE, 0 * ONE)
ALL_TOKENS = TokenDraw(**vars(ALL))
TOKEN_PROCESS = Process(TokenPolynomial(column(1.0, 2.0, 3.0)), 3)

MISTAKES = {
    "weight of zero": (lambda: Polynomial(0.0), "got 0.0, allowed: a finite number > 0"),
    "infinite weight": (lambda: Polynomial(float("inf")), "got inf, allowed: a finite number > 0"),
    "negative token weight": (lambda: TokenPolynomial(column(1.0, -2.0)), "got -2.0, allowed: a finite number > 0"),
    "NaN token weight": (lambda: TokenPolynomial(column(1.0, float("nan"))), "got nan"),
    "token weights of wrong shape": (lambda: TokenPolynomial(torch.ones(2, 2)), r"got torch.float32 of shape \(2, 2\)"),
    "betas out of order": (lambda: Geometric(2.0, 1.0), "got β̄min=2.0, β̄max=1.0, allowed: 0 < β̄min < β̄max"),
    "shift too large": (lambda: Shifted(Linear(), 0.5), "got 0.5, allowed: 0 < ε < 0.5"),
    "time above 1": (lambda: Linear().alpha(column(0.5, 1.5)), r"time t is outside \[0, 1\]: got 1.5"),
    "time below 0": (lambda: Geometric().loss_weight(column(-0.1)), "got -0.1"),
    "NaN time": (lambda: Polynomial(2.0).dalpha(column(float("nan"))), "got nan"),
    "integer time": (lambda: Linear().alpha(torch.tensor([1])), "got torch.int64"),
    "times in the wrong order": (lambda: Linear().unmask_prob(column(0.6), column(0.5)), "got s = 0.6, t = 0.5"),
    "α outside": (lambda: Linear().inverse(column(1.2)), "α is outside"),
    "rising schedule": (lambda: Custom(lambda t: 1 - 4 * t * (1 - t) * (t - 0.2)), "is not decreasing"),
    "NaN schedule": (lambda: Custom(lambda t: torch.where(t == 0.5, torch.nan, 1 - t)), "is not decreasing"),
    "schedule not starting at 1": (lambda: Custom(lambda t: 0.9 - 0.9 * t), r"got α\(0\) = 0.9"),
    "schedule below 0": (lambda: Custom(lambda t: 1 - 2 * t), r"got α\(1\) = -1.0"),
    "schedule of wrong shape": (lambda: Custom(lambda t: t.new_ones(2)), "wrong shape"),
    "no vocabulary": (lambda: Process(Linear(), 0), "got 0, allowed: an integer >= 1"),
    "token too large": (lambda: PROCESS.draw_mask(X + 1, ONE, Streams(0, 1)), r"got 3, allowed: 0\.\.2"),
    "negative token": (lambda: PROCESS.draw_mask(X - 1, ONE, Streams(0, 1)), r"got -1, allowed: 0\.\.2"),
    "token beyond the mask": (
        lambda: PROCESS.log_q(X + 2, X, ONE),
        r"got 4, allowed: 0\.\.3 \(3 is the mask\)",
    ),
    "float tokens": (lambda: PROCESS.draw_mask(X.float(), ONE, Streams(0, 1)), "got torch.float32"),
    "byte tokens": (
        lambda: PROCESS.draw_mask(X.to(torch.uint8), ONE, Streams(0, 1)),
        "got torch.uint8, allowed: int64",
    ),
    "tokens without a batch": (lambda: PROCESS.draw_mask(X[0], ONE, Streams(0, 1)), r"got shape \(3,\)"),
    "target outside the logits": (lambda: nelbo(torch.zeros(3, 2), X, ALL), r"got 2, allowed: 0\.\.1"),
    "logits for all positions": (lambda: nelbo(torch.zeros(1, 3, 3), X, ALL), r"got \(1, 3, 3\)"),
    "logits for too few rows": (lambda: nelbo(torch.zeros(2, 3), X, ALL), r"got \(2, 3\), allowed: \(3, 3\)"),
    "logits with a mask column": (
        lambda: PROCESS.reverse_kernel(torch.zeros(3, 4), ALL.mask, column(0.5), ONE),
        r"got \(3, 4\), allowed: \(3, 3\)",
    ),
    "NaN logits": (lambda: nelbo(torch.full((3, 3), torch.nan), X, ALL), "got 3 of 3 rows"),
    "NaN logits in GenMD4": (
        lambda: generalized_nelbo(torch.full((3, 3), torch.nan), X, ALL_TOKENS, TOKEN_PROCESS),
        "got 3 of 3 rows",
    ),
    "NaN logits in a draw": (lambda: inverse_cdf(torch.full((1, 3), torch.nan), ONE / 2), "got 1 of 1 rows"),
    "mask of wrong shape": (
        lambda: nelbo(torch.zeros(3, 3), X[:, :2], ALL),
        r"mask has the wrong shape: got \(1, 3\), allowed: \(1, 2\)",
    ),
    "k too large": (
        lambda: ExactK(PROCESS).draw_given_k(X, torch.tensor([4]), ONE, Streams(0, 1)),
        r"k is out of range: got 4, allowed: 0\.\.3",
    ),
    "k negative": (
        lambda: ExactK(PROCESS).draw_given_k(X, torch.tensor([-1]), ONE, Streams(0, 1)),
        "got -1",
    ),
    "k of wrong shape": (
        lambda: ExactK(PROCESS).draw_given_k(X, torch.tensor([1, 1]), ONE, Streams(0, 1)),
        "k has the wrong shape",
    ),
    "validity mask of wrong shape": (
        lambda: ExactK(PROCESS).draw(X, Streams(0, 1), valid=torch.ones(1, 2).bool()),
        r"validity mask has the wrong form: got torch.bool of shape \(1, 2\)",
    ),
    "validity mask of integers": (
        lambda: ContinuousTime(PROCESS).draw(X, Streams(0, 1), valid=torch.ones(1, 3, dtype=torch.int64)),
        "got torch.int64 of shape",
    ),
    "too few streams": (lambda: ExactK(PROCESS).draw(X.expand(4, -1), Streams(0, 1)), "got 1 for 4 sequences"),
    "too few streams for masks": (
        lambda: PROCESS.draw_mask(X.expand(4, -1), ONE.expand(4), Streams(0, 1)),
        "got 1 for 4 sequences",
    ),
    "times that do not fit": (lambda: PROCESS.draw_mask(X, column(0.1, 0.2), Streams(0, 1)), r"got shape \(2,\)"),
    "group of no rows": (lambda: ExactK(PROCESS).draw(X, Streams(0, 1), strata=-3), "got -3"),
    "sample numbers that are not whole": (lambda: Streams(0, column(1.0)), "got torch.float64"),
    "negative sample number": (lambda: Streams(0, torch.tensor([-1])), r"got -1, allowed: 0\.\."),
    "sample number too large": (lambda: Streams(0, torch.tensor([2**32])), "got 4294967296"),
    "time of power zero": (lambda: TokenTime(TOKEN_PROCESS, power=0.0), "got 0.0"),
    "bell without a shape": (lambda: BellK(0.0, 2.0), "got a=0.0, b=2.0"),
    "power of k not a number": (lambda: PowerK(float("nan")), "got nan"),
    "scalar objective on a token draw": (lambda: nelbo(torch.zeros(3, 3), X, ALL_TOKENS), "the draw is a GenMD4 draw"),
    "token objective on a scalar draw": (
        lambda: generalized_nelbo(torch.zeros(3, 3), X, ALL, TOKEN_PROCESS),
        "the draw is not a GenMD4 draw",
    ),
    "control variate for GenMD4": (
        lambda: Controlled(TokenTime(TOKEN_PROCESS), column(1.0, 1.0, 1.0)).draw(X, Streams(0, 1)),
        "this estimator has no control variate: got TokenTime",
    ),
    "NaN logits in a reverse step": (
        lambda: PROCESS.draw_reverse(torch.full_like(X, 3), torch.full((3, 3), torch.nan), 0 * ONE, ONE, Streams(0, 1)),
        "got 3 of 3 rows",
    ),
    "NaN logits in a GenMD4 reverse step": (
        lambda: TOKEN_PROCESS.draw_reverse(
            torch.full_like(X, 3), torch.full((3, 3), torch.nan), 0 * ONE, ONE, Streams(0, 1)
        ),
        "got 3 of 3 rows",
    ),
    "mask_prob that is not 1 − α": (lambda: Custom(lambda t: 1 - t, lambda t: t**3), "is not 1 − α: got a difference"),
    "top_k not whole": (lambda: filter_logits(torch.zeros(3), top_k=2.5), "got 2.5, allowed: an integer"),
    "odd pairs": (lambda: ExactK(PROCESS, paired).draw(X, Streams(0, 1)), "got groups of 1, allowed: an even number"),
    "token schedule in a scalar estimator": (lambda: ExactK(TOKEN_PROCESS), r"got TokenPolynomial\(V=3\)"),
    "continuous draw in a T-step objective": (
        lambda: generalized_steps_nelbo(torch.zeros(3, 3), X, ALL_TOKENS, TOKEN_PROCESS),
        "allowed: a draw of TokenSteps",
    ),
    "no steps": (lambda: uniform_grid(0), "got 0, allowed: an integer >= 1"),
    "rising grid": (lambda: Steps(PROCESS, column(0.0, 1.0)), "the grid does not decrease"),
    "grid of one time": (lambda: Steps(PROCESS, column(1.0)), "at least two times"),
    "empty log-SNR interval": (lambda: LogSnr(PROCESS, 3.0, -3.0), "the log-SNR interval is empty"),
    "baseline of wrong shape": (lambda: Controlled(ContinuousTime(PROCESS), ONE), r"got \(1,\)"),
    "no error bar": (
        lambda: estimate_nelbo(CORRELATED_BITS.denoiser(PROCESS), X, ExactK(PROCESS), repeats=1),
        "repeats=1",
    ),
    "negative temperature": (lambda: filter_logits(torch.zeros(3), temperature=-1.0), "got -1.0"),
    "top_k of zero": (lambda: filter_logits(torch.zeros(3), top_k=0), "got 0, allowed: an integer >= 1"),
    "top_p above 1": (lambda: filter_logits(torch.zeros(3), top_p=1.5), "got 1.5, allowed: 0 < top_p <= 1"),
    "negative seed": (lambda: Streams(-1, 1), "got -1"),
    "negative step": (lambda: Streams(0, 1, step=-1), "got -1"),
    "table that does not sum to 1": (lambda: TableLaw(torch.ones(2, 2)), "sum 4"),
    "ragged table": (lambda: TableLaw(torch.ones(2, 3) / 6), r"got \(2, 3\)"),
    "chain that does not sum to 1": (lambda: MarkovLaw(torch.ones(2) / 2, torch.eye(2) * 2), "row sums 1"),
    "chain of wrong shape": (lambda: MarkovLaw(torch.ones(2) / 2, torch.eye(3)), r"transition \(3, 3\)"),
    "sequence too long for the table": (lambda: CORRELATED_BITS.log_prob(X % 2), "got length 3, allowed: length 2"),
    "context of probability zero": (
        lambda: CORRELATED_BITS.denoiser(Process(Linear(), 2))(torch.tensor([[0, 1]]), ONE),
        "cannot occur",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistake_is_named(name):
    make, message = MISTAKES[name]
    with pytest.raises(ValueError, match=message) as caught:
        make()
    said = str(caught.value)
    assert "\n" not in said
    assert ": got " in said
    assert ", allowed: " in said
    assert "; " in said.split(", allowed: ")[1]


def test_trusted_code_reads_no_values_but_still_checks_shapes():
    with trusted():
        assert Linear().alpha(column(1.5)).item() == -0.5
        with pytest.raises(ValueError, match="wrong shape"):
            nelbo(torch.zeros(2, 3), X, ALL)
    with pytest.raises(ValueError, match="outside"):
        Linear().alpha(column(1.5))
