"""The one place where a token is drawn.

A draw inverts the cumulative distribution function: float32 softmax, float64 cumulative sum, one float64 uniform.
Every token keeps its probability to float32 precision, down to about 2^-53, the spacing of the uniforms.
The draw commonly used in the literature, a single float32 Gumbel-max over the tokens *and* the mask, does not:
a float32 uniform is a multiple of 2^-24, so a Gumbel never exceeds 24 log 2, and a token whose odds
against the mask are below 2^-24 is never drawn (App. G of the paper observed this as an "implicit top-p").
It is kept as `legacy_joint_gumbel`, to reproduce old results and as a reference in tests.
"""

import torch
from torch import Tensor

from ..mistakes import require
from . import checks
from .numeric import softmax_dtype
from .streams import Streams


def draw_categorical(logits: Tensor, streams: Streams) -> Tensor:
    """One token per row of logits [B, ..., V], sample b from stream b: ids [B, ...]."""
    rows = logits.shape[1:-1]
    return inverse_cdf(logits.flatten(0, -2), streams.uniform(*rows).flatten()).view(len(streams), *rows)


def inverse_cdf(logits: Tensor, u: Tensor) -> Tensor:
    """The u-quantiles of softmax(logits): logits [R, V] with u [R] or [R, S] gives ids of u's shape.

    A token of probability zero (logit −inf) is never returned.
    """
    probs = logits.softmax(-1, dtype=softmax_dtype(logits))
    checks.not_nan(probs[..., 0], "probabilities of the draw")
    cdf = probs.double().cumsum(-1)
    total = cdf[:, -1:].contiguous()
    value = (u if u.ndim == 2 else u[:, None]).double() * total
    token = torch.searchsorted(cdf, value, right=True)
    last = torch.searchsorted(cdf, total)  # u·total may round up to total: stay on a token that has mass
    return token.minimum(last).reshape(u.shape)


def filter_logits(
    logits: Tensor, *, temperature: float = 1.0, top_k: int | None = None, top_p: float | None = None
) -> Tensor:
    """Apply temperature, then top-k, then top-p to logits [..., V]. Each of them changes the distribution.

    Temperature 0 leaves only the most likely token. Top-k keeps the k largest logits (and all that tie with
    the last). Top-p keeps the smallest set of most likely tokens whose mass reaches p, the one that
    crosses p included.
    """
    if temperature != 1.0:
        logits = _apply_temperature(logits, temperature)
    if top_k is not None:
        logits = _keep_top_k(logits, top_k)
    if top_p is not None:
        logits = _keep_top_p(logits, top_p)
    return logits


def _apply_temperature(logits: Tensor, temperature: float) -> Tensor:
    require(
        0 <= temperature < float("inf"),
        "temperature is out of range",
        got=temperature,
        allowed="a finite number >= 0",
        do="use 1 for the model's own distribution, 0 for the most likely token",
    )
    if temperature < torch.finfo(softmax_dtype(logits)).tiny:  # too small to divide by
        best = logits.argmax(-1, keepdim=True)
        return torch.full_like(logits, -torch.inf).scatter(-1, best, 0.0)
    logits = logits.to(softmax_dtype(logits))  # in bfloat16 the quotient would be rounded to 8 bits
    return (logits - logits.amax(-1, keepdim=True)) / temperature


def _keep_top_k(logits: Tensor, top_k: int) -> Tensor:
    require(
        isinstance(top_k, int) and top_k >= 1,
        "top_k is out of range",
        got=top_k,
        allowed="an integer >= 1",
        do="leave it out to keep all tokens",
    )
    threshold = logits.topk(min(top_k, logits.shape[-1]), dim=-1).values[..., -1:]
    return logits.masked_fill(logits < threshold, -torch.inf)


def _keep_top_p(logits: Tensor, top_p: float) -> Tensor:
    require(
        0 < top_p <= 1,
        "top_p is out of range",
        got=top_p,
        allowed="0 < top_p <= 1",
        do="leave it out to keep all tokens",
    )
    if top_p == 1:
        return logits
    ordered, order = logits.sort(dim=-1, descending=True, stable=True)
    probs = ordered.softmax(-1, dtype=torch.float64)
    mass_before = probs.cumsum(-1) - probs
    past_p = mass_before >= top_p - 1e-12  # sums of equal shares may round to slightly below their true value
    past_p[..., 0] = False
    drop = past_p.scatter(-1, order, past_p)
    return logits.masked_fill(drop, -torch.inf)


def legacy_joint_gumbel(logits: Tensor, unmask_prob: Tensor, u: Tensor) -> Tensor:
    """The draw used in the literature, kept for comparison only: float32 Gumbel-max over V tokens and the mask.

    logits [R, V], unmask_prob [R] and float32 uniforms [R, V+1] give ids [R], where V means "stays masked". Written as
    the equivalent race argmax_k p_k/(−log u_k). Since u ≤ 1 − 2^-24, tokens whose odds against the mask are below about
    2^-24 are never drawn: at the first of T uniform steps that is every token of probability below 2^-24·(T−1).
    """
    p = unmask_prob.float()[:, None]
    joint = torch.cat([logits.float().softmax(-1) * p, 1 - p], dim=-1)
    return (joint / -u.log()).argmax(-1)
