"""The draw of a token: exact for rare tokens too, where the literature's float32 draw is not."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from unmask.core import Linear, Process, Streams, draw_categorical, filter_logits, inverse_cdf, legacy_joint_gumbel

from .laws import chi_square, column

VOCAB = 50_257
ZIPF = -torch.arange(1, VOCAB + 1).double().log()
PROBS = ZIPF.softmax(-1).numpy()
UNMASK_PROB = Linear().unmask_prob(column(0.5 - 1 / 1024), column(0.5)).item()  # the middle step of T = 1024


def joint_test(tokens, logits):
    """Chi-square p-value of {tokens by rank, the lumped tail, still masked} against μ·unmask_prob and the mask."""
    tokens, vocab_size = tokens.numpy(), len(logits)
    edges = [0, 300, 3_000, vocab_size]  # the last bin is the lumped tail: 25 % of the mass for 50,257 tokens
    seen = [*np.histogram(tokens[tokens < vocab_size], edges)[0], np.sum(tokens == vocab_size)]
    law = [*(UNMASK_PROB * np.add.reduceat(logits.softmax(-1).numpy(), edges[:-1])), 1 - UNMASK_PROB]
    return stats.chisquare(seen, len(tokens) * np.array(law)).pvalue


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_million_zipf_draws(dtype):
    """Every token that expects 10 draws has a bin of its own, the rest are lumped; false alarm 1e-6."""
    tokens = inverse_cdf(ZIPF.to(dtype)[None], Streams(0, 1).uniform(1_000_000))[0]
    assert chi_square(torch.bincount(tokens, minlength=VOCAB), PROBS) > 1e-6
    tail = int((tokens >= 10_000).sum())
    assert stats.binomtest(tail, 1_000_000, PROBS[10_000:].sum()).pvalue > 1e-6


def test_positions_first_passes_where_the_joint_float32_draw_fails():
    """The same test of one step at T = 1024: a million exact draws over 50,257 tokens pass, 200,000 legacy draws over
    16,384, fewer of which are rare, already fail.
    """
    streams = Streams(1, 1)
    revealed = streams.uniform(1_000_000)[0] < UNMASK_PROB
    tokens = torch.where(revealed, inverse_cdf(ZIPF.float()[None], streams.uniform(1_000_000))[0], VOCAB)
    assert joint_test(tokens, ZIPF) > 1e-6

    generator, batch, few = torch.Generator().manual_seed(0), 50, 16_384
    logits, unmask_prob = ZIPF[:few].float().expand(batch, -1), torch.full((batch,), UNMASK_PROB)
    legacy, u = torch.empty(200_000, dtype=torch.long), torch.empty(batch, few + 1)
    for rows in legacy.split(batch):
        rows.copy_(legacy_joint_gumbel(logits, unmask_prob, torch.rand(u.shape, generator=generator, out=u)))
    assert joint_test(legacy, ZIPF[:few]) < 1e-6
    assert int(((legacy >= 10_000) & (legacy < few)).sum()) <= 4  # 19 expected: so few by chance in 5e-5


def test_legacy_draw_is_right_where_nothing_is_rare():
    """With a small vocabulary and few steps the joint draw has the right law: only rarity breaks it."""
    logits, n = torch.tensor([[0.3, -1.0, 2.0]]), 50_000
    u = torch.rand(n, 4, generator=torch.Generator().manual_seed(0))
    tokens = legacy_joint_gumbel(logits.expand(n, -1), torch.full((n,), 0.25), u)
    law = torch.cat([0.25 * logits[0].softmax(-1), torch.tensor([0.75])]).double()
    assert chi_square(torch.bincount(tokens, minlength=4), law / law.sum()) > 1e-6


def test_reverse_step_over_a_large_vocabulary():
    """`draw_reverse` itself: float32 logits, half of the masks revealed, the tail present in proportion."""
    process, n, batches = Process(Linear(), VOCAB), 256, 8
    s, t = column(0.25).expand(n), column(0.5).expand(n)
    drawn = []
    for batch in range(batches):
        x_t = torch.full((n, 1), VOCAB)
        drawn.append(process.draw_reverse(x_t, ZIPF.float().expand(n, -1), s, t, Streams(batch, n))[:, 0])
    tokens = torch.cat(drawn)
    masked = int((tokens == VOCAB).sum())
    assert stats.binomtest(masked, n * batches, 0.5).pvalue > 1e-7
    tail = int(((tokens >= 3_000) & (tokens < VOCAB)).sum())
    assert stats.binomtest(tail, n * batches - masked, PROBS[3_000:].sum()).pvalue > 1e-7


def test_one_stream_per_sample():
    logits = torch.randn(20, 5, 7, generator=torch.Generator().manual_seed(0))
    batch = draw_categorical(logits, Streams(3, 20))
    assert batch.shape == (20, 5)
    alone = draw_categorical(logits[17:18], Streams(3, torch.tensor([17])))
    assert torch.equal(batch[17], alone[0])


@given(u=st.floats(0, 1), zeros=st.lists(st.booleans(), min_size=6, max_size=6).filter(lambda z: not all(z)))
def test_impossible_tokens_are_never_drawn(u, zeros):
    logits = torch.linspace(-2, 3, 6).masked_fill(torch.tensor(zeros), -torch.inf)
    assert not zeros[int(inverse_cdf(logits[None], column(u)))]


def test_quantiles_are_the_inverse_of_the_distribution_function():
    logits = torch.tensor([[0.0, 1.0, -1.0]], dtype=torch.float64)
    cdf = logits.softmax(-1).cumsum(-1)[0]
    u = torch.stack([cdf[0] - 1e-9, cdf[0] + 1e-9, cdf[1] - 1e-9, cdf[1] + 1e-9])
    assert inverse_cdf(logits, u[None])[0].tolist() == [0, 1, 1, 2]


def test_the_last_tokens_are_reached_however_rare():
    """A float32 cumulative sum would be flat beyond 1 − 2^-24: these tokens would have no width."""
    probs = torch.full((1, 1001), 1e-9, dtype=torch.float64)
    probs[0, 0] = 1 - 1e-6
    middle = probs.cumsum(1) - probs / 2
    drawn = inverse_cdf(probs.log().float(), middle)[0]
    assert (drawn - torch.arange(1001)).abs().max() <= 60  # float32 logits move each width by 1e-7 of its size
    assert len(drawn.unique()) > 900


def test_how_rare_a_token_may_be():
    """The uniform is a multiple of 2^-53: its largest value reaches a last token of 2^-50, and none of 2^-60."""
    largest = column(1 - 2.0**-53)
    for power, drawn in ((-50, 1), (-60, 0)):
        assert inverse_cdf(column(1, 2.0**power).log().float()[None], largest).tolist() == [drawn]


def law_of(logits, **options):
    return filter_logits(torch.tensor(logits, dtype=torch.float64), **options).softmax(-1)


P = [0.1, 0.4, 0.2, 0.3]
LOG_P = np.log(P).tolist()


def test_top_p_keeps_the_token_that_crosses():
    torch.testing.assert_close(law_of(LOG_P, top_p=0.65), column(0, 4 / 7, 0, 3 / 7))
    torch.testing.assert_close(law_of(LOG_P, top_p=0.75), column(0, 4 / 9, 2 / 9, 3 / 9))  # crosses at 0.9
    torch.testing.assert_close(law_of(LOG_P, top_p=1e-9), column(0, 1, 0, 0))
    torch.testing.assert_close(law_of(LOG_P, top_p=1e-40), column(0, 1, 0, 0))
    torch.testing.assert_close(law_of(LOG_P, top_p=1.0), column(*P))
    torch.testing.assert_close(law_of([0.0, 0.0], top_p=0.5), column(1, 0))  # the mass is reached exactly
    for equal in range(2, 40):
        for kept in range(1, equal):
            left = filter_logits(torch.zeros(equal), top_p=kept / equal) > -torch.inf
            assert left.sum() == kept, (equal, kept)  # also where rounding would say otherwise


def test_top_k_and_temperature():
    torch.testing.assert_close(law_of(LOG_P, top_k=2), column(0, 4 / 7, 0, 3 / 7))
    torch.testing.assert_close(law_of(LOG_P, top_k=9), column(*P))
    torch.testing.assert_close(law_of([1.0, 2.0, 1.0, 0.0], top_k=2)[3], column(0.0)[0])  # a tie is kept whole
    squared = column(*P) ** 2
    torch.testing.assert_close(law_of(LOG_P, temperature=0.5), squared / squared.sum())
    torch.testing.assert_close(law_of(LOG_P, temperature=0.0), column(0, 1, 0, 0))
    torch.testing.assert_close(law_of(LOG_P, temperature=1e-40), column(0, 1, 0, 0))
    # temperature comes first: at temperature 1/2 the two largest hold 25/30 of the mass
    torch.testing.assert_close(law_of(LOG_P, temperature=0.5, top_p=0.8), column(0, 16 / 25, 0, 9 / 25))


@pytest.mark.parametrize("temperature", [1e-30, 1e-300])
def test_a_tiny_temperature_leaves_the_most_likely_token(temperature):
    """Also one that float32 takes for 0, by which nothing can be divided."""
    found = filter_logits(torch.tensor([[1.0, 3.0, 2.0]]), temperature=temperature).softmax(-1)
    assert found.tolist() == [[0, 1, 0]]


def test_temperature_keeps_the_digits_of_bfloat16():
    """Logits of a mixed-precision network are sharpened in float32; in their own type the law is off by 1 in 1,000."""
    logits = (4 * torch.randn(50, 1000, generator=torch.Generator().manual_seed(0))).bfloat16()
    for temperature in (0.7, 3.0):
        exact = (logits.double() / temperature).softmax(-1)
        found = filter_logits(logits, temperature=temperature).softmax(-1, dtype=torch.float64)
        torch.testing.assert_close(found, exact, rtol=1e-5, atol=0)
    assert filter_logits(logits, temperature=1.0) is logits


def test_filters_work_row_by_row():
    rows = torch.tensor([LOG_P, LOG_P[::-1]])
    kept = filter_logits(rows, top_p=0.65) > -torch.inf
    assert kept.tolist() == [[False, True, False, True], [True, False, True, False]]
