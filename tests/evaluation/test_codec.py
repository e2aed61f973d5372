"""Coding at the bound: what is coded is recovered, and takes as many bits as its probability implies."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.sampling.oracle import chain
from unmask.core import Cosine, Linear, Process, Streams, TokenPolynomial
from unmask.evaluation import Reader, Writer, chain_rule, in_groups, passed, random_ranks
from unmask.evaluation.ans import BITS, SLOTS, Stack
from unmask.evaluation.codec import shares
from unmask.sampling import Predictor

V, N, COUNT = 4, 12, 40
LAW, PROCESS = chain(V), Process(Linear(), V)
X = LAW.draw(N, Streams(3, COUNT))
STATE = 96
"""Bits of an empty code."""


def exact(process=PROCESS):
    return Predictor(LAW.denoiser(process), V)


def sizes_in_bits(code):
    return 8 * len(code)


@st.composite
def symbols(draw):
    """Slots of symbols: where they begin, and how many."""
    many = draw(st.lists(st.tuples(st.integers(0, SLOTS - 1), st.integers(1, SLOTS)), max_size=60))
    return [(start, min(count, SLOTS - start)) for start, count in many]


@given(symbols())
def test_a_stack_gives_back_what_was_put_on_it_in_as_many_bits_as_it_is_worth(many):
    stack = Stack()
    for start, count in many:
        stack.push(start, count)
    code = stack.to_bytes()
    information = sum(BITS - math.log2(count) for _, count in many)
    assert information - 1 <= sizes_in_bits(code) - 64 <= information + 32
    again = Stack.from_bytes(code)
    for start, count in reversed(many):
        assert start <= again.slot < start + count
        again.pop(start, count)
    assert again.empty


def test_bits_of_many_symbols_are_their_information():
    """To a billionth: no bits are lost."""
    counts = np.random.default_rng(0).integers(1, SLOTS, 50_000).tolist()
    stack = Stack()
    for count in counts:
        stack.push(0, count)
    information = sum(BITS - math.log2(count) for count in counts)
    assert abs(sizes_in_bits(stack.to_bytes()) - information) < STATE + 1e-9 * information


def test_shares_are_whole_numbers_that_fill_all_slots():
    logits = torch.randn(20, 1000, generator=torch.Generator().manual_seed(0)) * 8
    logits[0], logits[1, 1:] = 0.0, -torch.inf
    begins = shares(logits)
    counts = begins.diff(dim=-1)
    assert begins.dtype == torch.int64
    assert (begins[:, 0] == 0).all()
    assert (begins[:, -1] == SLOTS).all()
    assert (counts >= 1).all()
    torch.testing.assert_close(counts.double() / SLOTS, logits.double().softmax(-1), rtol=0, atol=1001 / SLOTS)


def test_a_model_that_predicts_nothing_has_no_code():
    with pytest.raises(ValueError, match="the model does not predict probabilities: got NaN"):
        shares(torch.tensor([[0.0, 1.0], [0.0, math.nan]]))


@pytest.mark.parametrize("schedule", [Linear(), Cosine()])
def test_the_code_of_the_exact_denoiser_has_the_length_of_minus_log_p(schedule):
    """One token at a time, in any order: the chain rule is exact. Every sequence has its own order."""
    process, writer = Process(schedule, V), Writer()
    rank = random_ranks(Streams(1, COUNT), N, N)
    assert (rank.sort(1).values == torch.arange(1, N + 1)).all()
    passed(exact(process), process, X, rank, writer)
    truth = -LAW.log_prob(X).sum().item() / math.log(2)
    assert abs(sizes_in_bits(writer.code()) - truth) < STATE


@pytest.mark.parametrize("steps", [1, 3, 5, N, 100])
def test_what_is_read_is_what_was_written(steps):
    """In groups of every size; a reader has only the code. Its length is that of the groups' chain rule."""
    rank, writer = random_ranks(Streams(2, COUNT), N, steps), Writer()
    assert rank.max() == min(steps, N)
    counts = torch.stack([(rank == r).sum(1) for r in range(1, int(rank.max()) + 1)])
    assert counts.max() - counts.min() <= 1
    torch.testing.assert_close(passed(exact(), PROCESS, X, rank, writer), X)
    code = writer.code()
    wanted = in_groups(exact(), PROCESS, X, rank).sum().item() / math.log(2)
    assert abs(sizes_in_bits(code) - wanted) < STATE
    reader = Reader(code)
    assert (passed(exact(), PROCESS, torch.zeros_like(X), rank, reader) == X).all()
    assert reader.done


def test_over_random_orders_the_mean_length_is_the_bound():
    """For a wrong denoiser, where orders differ: 400 orders of one sequence against as many of the chain rule.

    Two means of 400 each with the same distribution: a difference of five standard errors has probability 6e-7.
    """

    def wrong(x, t, condition=None):
        return (0.6 * LAW.denoiser(PROCESS)(x, t, condition).softmax(-1) + 0.4 / V).log()

    x = X[:1].expand(400, -1)
    coded = in_groups(Predictor(wrong, V), PROCESS, x, random_ranks(Streams(4, 400), N, N))
    bound = chain_rule(Predictor(wrong, V), PROCESS, x, Streams(5, 400))
    error = math.hypot(coded.std().item(), bound.std().item()) / 20
    assert coded.std() > 0.01
    assert abs(coded.mean() - bound.mean()) < 5 * error


def test_orders_differ_between_sequences_and_do_not_depend_on_the_batch():
    all_of_them = random_ranks(Streams(0, torch.arange(8)), 32, 8)
    torch.testing.assert_close(random_ranks(Streams(0, torch.tensor([5])), 32, 8), all_of_them[5:6])
    assert len(all_of_them.unique(dim=0)) == 8


def test_tokens_with_schedules_of_their_own_have_no_code():
    """The position that is revealed then gives away its token, which a code by positions would count twice."""
    process = Process(TokenPolynomial(torch.tensor([1.0, 2.0, 1.0, 1.0])), V)
    with pytest.raises(ValueError, match="one schedule for all tokens"):
        passed(exact(), process, X, torch.ones_like(X), Writer())


@pytest.mark.parametrize("code", [b"", b"1234567", b"\0" * 12, b"\xff" * 13])
def test_bytes_that_are_no_code_are_refused(code):
    with pytest.raises(ValueError, match="the code is damaged"):
        Reader(code)


def test_a_code_that_is_too_short_ends():
    writer = Writer()
    rank = random_ranks(Streams(0, COUNT), N, N)
    passed(exact(), PROCESS, X, rank, writer)
    with pytest.raises(EOFError):
        passed(exact(), PROCESS, X, rank, Reader(writer.code()[-24:]))
