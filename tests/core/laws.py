"""The schedules, laws and statistics that several test files use."""

import math

import numpy as np
import torch
from scipy import stats

from unmask.core import Cosine, Custom, Geometric, Linear, Polynomial, Shifted
from unmask.core.exact import TableLaw


def fourth_power(t):
    return (1 - t) ** 4


COMPLETE = {  # α goes all the way from 1 to 0
    "linear": Linear(),
    "polynomial 0.4": Polynomial(0.4),
    "polynomial 2.5": Polynomial(2.5),
    "cosine": Cosine(),
    "custom": Custom(fourth_power, mask_prob=lambda t: -torch.expm1(4 * torch.log1p(-t))),
}
INCOMPLETE = {  # at least one end is not reached
    "geometric": Geometric(),
    "geometric wide": Geometric(1e-3, 5.0),
    "shifted linear": Shifted(Linear(), 1e-4),
    "shifted cosine": Shifted(Cosine(), 1e-2),
}
SCHEDULES = COMPLETE | INCOMPLETE

CORRELATED_BITS = TableLaw(torch.tensor([[0.5, 0.0], [0.0, 0.5]]))  # entropy log 2
W = torch.tensor([0.6, 1.0, 2.7], dtype=torch.float64)


def column(*values):
    return torch.tensor(values, dtype=torch.float64)


def z_score(samples, truth):
    """How many standard errors the mean of independent samples lies from the truth."""
    return float((samples.mean() - truth) / (samples.std() / math.sqrt(len(samples))))


def chi_square(counts, probs, least=10.0):
    """p-value of counts against probs; neighbouring outcomes are lumped until each bin expects `least`."""
    counts = np.asarray(counts, dtype=float)
    expected = np.asarray(probs) * counts.sum()
    edges, mass = [0], 0.0
    for i, e in enumerate(expected):
        mass += e
        if mass >= least:
            edges.append(i + 1)
            mass = 0.0
    edges[-1] = len(expected)
    assert len(edges) > 2, "one bin cannot fail: draw more"
    return stats.chisquare(np.add.reduceat(counts, edges[:-1]), np.add.reduceat(expected, edges[:-1])).pvalue


def sequence_counts(x, vocab_size):
    """How often each of the V^N sequences occurs, in lexicographic order."""
    place = vocab_size ** torch.arange(x.shape[1] - 1, -1, -1)
    return torch.bincount((x * place).sum(1), minlength=vocab_size ** x.shape[1])
