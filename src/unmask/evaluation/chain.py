"""The exact chain rule in a given order, and what many orders tell about the likelihood.

A masked diffusion model is a model for every order: log p(x | σ) = Σ_i log μ(x_σ(i) | x_σ(<i)) is exact and takes N
network calls. Over random orders its mean is a bound, minus the NELBO where the network does not see the time; the log
of the mean of p(x | σ) over K orders is a tighter bound, and with a second set of orders a bound from the other side
follows: −log p(x) lies between the two. A network that sees the time is evaluated at the times of the chain rule, which
makes it a model of its own: p is then the probability of drawing one token at a time.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..core import Process, Streams
from ..mistakes import require
from ..sampling import Predictor
from ..sampling.frame import highest, number, spread

Order = Callable[[Streams, Tensor], Tensor | None]
"""(streams, x_0) → numbers in the shape of x_0, higher for earlier positions; None: the network decides."""


def _left_to_right(streams: Streams, x_0: Tensor) -> Tensor:
    del streams
    falling = torch.arange(x_0[0].numel(), 0, -1, dtype=torch.float64, device=x_0.device)
    return falling.expand(len(x_0), -1).reshape(x_0.shape)


def _random(streams: Streams, x_0: Tensor) -> Tensor:
    return streams.uniform(*x_0.shape[1:])


def _by_confidence(streams: Streams, x_0: Tensor) -> None:
    del streams, x_0


ORDERS: dict[str, Order] = {"left-to-right": _left_to_right, "random": _random, "confidence": _by_confidence}


@torch.no_grad()
def chain_rule(
    predict: Predictor, process: Process, x_0: Tensor, streams: Streams, order: str | Sequence[int] = "random"
) -> Tensor:
    """−log p(x_0 | σ) in nats [B], exact, with one network call per token; σ by name, or as a list of positions.

    confidence: the next position is the one whose most likely token has the highest probability; this depends only on
    what is visible, so it defines a model too. Networks that see the time get the one at which that many positions are
    masked on average.
    """
    require_orders(process)
    masked, nats = torch.ones_like(x_0, dtype=torch.bool), torch.zeros(len(x_0), dtype=torch.float64)
    length = x_0[0].numel()
    places = ORDERS[_known(order)](streams, x_0) if isinstance(order, str) else _listed(order, x_0)
    for left in range(length, 0, -1):
        t = process.schedule.inverse_mask_prob(torch.full((len(x_0),), left / length, dtype=torch.float64))
        x_t, t = process.hide(x_0, masked), t.to(x_0.device)
        if places is None:
            where, logits = most_confident(predict(x_t, t, masked), masked)
        else:
            where = highest(places.masked_fill(~masked, -torch.inf), torch.ones_like(t))
            logits = predict(x_t, t, where)
        log_mu = logits.double().log_softmax(-1)
        nats -= log_mu.gather(1, x_0[where][:, None].long())[:, 0].cpu()
        masked &= ~where
    return nats


def require_orders(process: Process) -> None:
    """Fail if each token has its own schedule: the position revealed next would then give away its token."""
    require(
        not process.schedule.per_token,
        "the chain rule needs one schedule for all tokens",
        got="a schedule for each token (GenMD4)",
        allowed="a scalar schedule",
        do="use the bound",
    )


def groups(process: Process, rank: Tensor) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """The tokens of rank 1, 2, … in turn: where they are, what is masked until then (bool, as rank), the time [B].

    Rank 0 is given. The time is the one at which that many of the others are masked on average.
    """
    hidden = number(rank > 0).clamp(min=1)
    for r in range(1, int(rank.max()) + 1):
        where, masked = rank == r, rank >= r
        if bool(where.any()):
            yield where, masked, process.schedule.inverse_mask_prob(number(masked).double() / hidden)


@torch.no_grad()
def in_groups(predict: Predictor, process: Process, x_0: Tensor, rank: Tensor) -> Tensor:
    """−log p of x_0 where rank > 0, given the rest, in nats [B]: tokens of equal rank together, lower ranks first.

    Σ_r Σ_{i: rank_i = r} −log μ_i(x_i | what has a lower rank). With the step at which each token was revealed this is
    what a sampler drew from; with all ranks different, the chain rule in that order. The mean over samples of the
    second minus the first is the KL divergence from drawing in steps to drawing one by one in an order that refines
    them.
    """
    nats = torch.zeros(len(x_0), dtype=torch.float64, device=x_0.device)
    for where, masked, t in groups(process, rank):
        log_mu = predict(process.hide(x_0, masked), t, where).double().log_softmax(-1)
        found = log_mu.gather(1, x_0[where][:, None].long())[:, 0]
        nats.index_add_(0, where.nonzero()[:, 0], -found)
    return nats


def _known(order: str) -> str:
    require(order in ORDERS, "unknown order", got=order, allowed=", ".join(ORDERS), do="choose one of them")
    return order


def _listed(order: Sequence[int], x_0: Tensor) -> Tensor:
    """An order given position by position."""
    length = x_0[0].numel()
    whole = sorted(order) == list(range(length))
    what, got = "the order is not a permutation", list(order)[:8]
    require(whole, what, got=got, allowed=f"0..{length - 1}, each once", do="list all positions")
    falling = torch.empty(length, dtype=torch.float64)
    falling[torch.tensor(order)] = torch.arange(length, 0, -1, dtype=torch.float64)
    return falling.to(x_0.device).expand(len(x_0), -1).reshape(x_0.shape)


def most_confident(logits: Tensor, masked: Tensor) -> tuple[Tensor, Tensor]:
    """The masked position of each row whose most likely token has the highest probability, and its logits [B, V]; rows
    without a masked position have none.
    """
    sure = spread(logits.double().softmax(-1).amax(-1), masked, -1.0)
    where = highest(sure, number(masked).clamp(max=1))
    return where, logits[where[masked]]


@dataclass(frozen=True)
class Interval:
    """Bounds of −log p(x) in nats [B], from several orders each."""

    elbo: Tensor
    """The mean over orders: the NELBO of a network that does not see the time, else a bound on the chain rule's p."""
    elbo_error: Tensor
    """Its standard error over orders."""
    upper: Tensor
    """−log of the mean likelihood over K orders: at most their mean, and above −log p on average."""
    lower: Tensor
    """Below −log p on average: log ψ + p̂/ψ − 1 ≥ log p for any ψ, here the mean over the other half of the orders."""


def order_bounds(
    predict: Predictor, process: Process, x_0: Tensor, *, orders: int, seed: int = 0, index: Tensor | None = None
) -> Interval:
    """Bounds from `orders` random orders; `index`: numbers of the sequences [B], so that each gets its own orders."""
    require(orders >= 2, "too few orders", got=orders, allowed=">= 2", do="use 8")
    numbers = torch.arange(len(x_0), device=x_0.device) if index is None else index
    streams = (Streams(seed, numbers, k) for k in range(orders))
    found = torch.stack([chain_rule(predict, process, x_0, own) for own in streams])
    first, second = found[: orders // 2], found[orders // 2 :]
    log_psi = -mean_likelihood(first)
    ratio = (-mean_likelihood(second) - log_psi).exp()
    return Interval(found.mean(0), found.std(0) / orders**0.5, mean_likelihood(found), -(log_psi + ratio - 1))


def mean_likelihood(nats: Tensor) -> Tensor:
    """−log (1/K) Σ_k p(x | σ_k) from −log p(x | σ_k) [K, B]."""
    return math.log(len(nats)) - (-nats).logsumexp(0)
