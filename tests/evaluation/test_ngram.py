"""The metric is a distribution, and finds the entropy of a chain it can represent."""

import numpy as np
import pytest

from unmask.core import Streams
from unmask.core.exact import MarkovLaw
from unmask.evaluation import NGram


def chain(length=200_000):
    law = MarkovLaw.random(vocab_size=5, seed=0)
    return law, law.draw(length=length, streams=Streams(seed=1, index=1))[0].numpy()


def test_probabilities_sum_to_one_after_every_context():
    _, tokens = chain(300)
    for order in (1, 2, 3, 4):
        model = NGram(tokens, order, 5)
        for context in np.ndindex(*(5,) * (order - 1)):
            total = sum(model.probs(np.array([*context, x]))[-1] for x in range(5))
            assert total == pytest.approx(1, abs=1e-12)


def test_a_bigram_model_finds_the_entropy_of_a_markov_chain():
    """Bits on fresh text of the chain: entropy rate within sampling error (both ≈ 2·10⁵ tokens, 0.5 %)."""
    law, tokens = chain()
    half = len(tokens) // 2
    bits = {n: NGram(tokens[:half], n, 5).bits(tokens[half:]) for n in (1, 2, 3)}
    stationary = np.linalg.matrix_power(law.transition.numpy(), 200)[0]
    conditional = -(stationary[:, None] * law.transition.numpy() * np.log2(law.transition.numpy())).sum()
    assert bits[2] == pytest.approx(conditional, rel=5e-3)
    assert bits[3] == pytest.approx(conditional, rel=5e-3)
    assert bits[1] > bits[2] + 0.05


def test_unseen_tokens_and_contexts_have_probability():
    model = NGram(np.array([0, 1, 0, 1]), 3, 4)
    assert model.probs(np.array([3, 2, 3, 0])).min() > 0
    assert NGram(np.array([0, 1]), 3, 4).probs(np.array([0, 1, 2])).min() > 0  # fewer tokens than the order


def test_mistakes():
    with pytest.raises(ValueError, match="the order is not positive"):
        NGram(np.array([0]), 0, 4)
    with pytest.raises(ValueError, match="the order is too large for this vocabulary"):
        NGram(np.array([0]), 5, 50_000)
