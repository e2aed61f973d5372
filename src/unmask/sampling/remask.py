"""Samplers that also remask (ReMDM, Wang et al., 2025), which lets them correct mistakes of early steps.

In a step from t to s, with σ ≤ min(1, (1−α_s)/α_t), a revealed position is masked again with probability σ, and a
masked one is revealed with probability (α_s − (1−σ) α_t)/(1−α_t). The share of masked positions is the same as without
remasking: α_t (1−σ) + α_s − (1−σ) α_t = α_s. Positions given at the start never change.

For a perfect denoiser, masking and revealing one position at a time preserves the distribution; with many steps σ
shrinks and these samplers approach it. The predictions of a trained denoiser differ from order to order, and then each
of these samplers has its own distribution.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from ..core import Process, Streams, inverse_cdf
from ..core.grid import check_grid
from ..mistakes import require
from .frame import Frame, number, put, times
from .predict import Predictor


@dataclass(frozen=True)
class State:
    """The inputs of a rule for σ."""

    alpha_t: Tensor
    alpha_s: Tensor
    largest: Tensor
    """The largest σ that keeps the masked share on schedule; all three have shape [B, 1, ...]."""
    visible: Tensor
    """Positions that may be masked again."""
    written_with: Tensor
    """The probability of each revealed token when it was drawn."""


Rule = Callable[[State], Tensor]
"""σ [B, 1, ...], the same for all positions of a row, or one σ per position."""


def remask_cap(
    predict: Predictor, process: Process, x: Tensor, grid: Tensor, streams: Streams, *, eta: float = 0.02
) -> Iterator[Frame]:
    """σ = min(η, largest σ)."""
    share = _share(eta)
    return _remasking(predict, process, x, _checked(grid), streams, lambda state: state.largest.clamp(max=share))


def remask_rescale(
    predict: Predictor, process: Process, x: Tensor, grid: Tensor, streams: Streams, *, eta: float = 0.02
) -> Iterator[Frame]:
    """σ = η · largest σ."""
    share = _share(eta)
    return _remasking(predict, process, x, _checked(grid), streams, lambda state: share * state.largest)


def remask_confidence(
    predict: Predictor, process: Process, x: Tensor, grid: Tensor, streams: Streams, *, eta: float = 1.0
) -> Iterator[Frame]:
    """σ_i = η · largest σ · softmax_i(−ψ), ψ being the token's probability when drawn: remasks doubtful tokens."""
    share = _share(eta)

    def rule(state: State) -> Tensor:
        doubt = (-state.written_with).masked_fill(~state.visible, -torch.inf).flatten(1).softmax(1)
        return share * state.largest * doubt.nan_to_num().view_as(state.written_with)

    return _remasking(predict, process, x, _checked(grid), streams, rule)


def forward_backward(
    predict: Predictor, process: Process, x: Tensor, grid: Tensor, streams: Streams
) -> Iterator[Frame]:
    """One step back for every step forward (Campbell et al., 2022): σ = (α_s−α_t)/α_t."""
    return dfm_corrector(predict, process, x, grid, streams, strength=1.0)


def dfm_corrector(
    predict: Predictor, process: Process, x: Tensor, grid: Tensor, streams: Streams, *, strength: float = 1.0
) -> Iterator[Frame]:
    """Corrector of discrete flow matching (Gat et al., 2024): unmask 1 + c times as fast, remask at rate c·α'/α."""
    require(strength >= 0, "the strength is negative", got=strength, allowed=">= 0", do="use 0 for none")

    def rule(state: State) -> Tensor:
        return (strength * (state.alpha_s - state.alpha_t) / state.alpha_t).minimum(state.largest)

    return _remasking(predict, process, x, _checked(grid), streams, rule)


def remask_loop(
    predict: Predictor,
    process: Process,
    x: Tensor,
    grid: Tensor,
    streams: Streams,
    *,
    eta: float = 0.02,
    on: float = 0.55,
    off: float = 0.05,
    hold: float = 0.9,
) -> Iterator[Frame]:
    """Unmask until α = hold, remask and reveal a share η per step while off < t ≤ on, then finish.

    The share does not shrink with the step size, so some positions are always revealed together: biased.
    """
    ordered = 0 < off < on < 1 and 0 < hold < 1
    got = f"on {on}, off {off}, hold {hold}"
    allowed = "0 < off < on < 1 and 0 < hold < 1"
    require(ordered, "the loop's options are out of range", got=got, allowed=allowed, do="use 0.55, 0.05 and 0.9")
    t = _checked(grid)
    alpha = torch.where(t > on, hold * (1 - t) / (1 - on), torch.where(t > off, hold, 1 - (1 - hold) * t / off))
    share = _share(eta)

    def rule(state: State) -> Tensor:
        return torch.where(state.alpha_s > state.alpha_t, 0.0, state.largest.clamp(max=share))

    return _remasking(predict, process, x, process.schedule.inverse(alpha), streams, rule)


def _remasking(
    predict: Predictor, process: Process, x: Tensor, grid: Tensor, streams: Streams, rule: Rule
) -> Iterator[Frame]:
    free, written_with = x == process.mask_id, torch.full(x.shape, torch.inf, dtype=torch.float64, device=x.device)
    for step, (t, s) in enumerate(pairwise(grid.tolist())):
        now, then, own = times(t, x), times(s, x), streams.at(step)
        where, what, back = own.uniforms(3, *x.shape[1:])
        mask = x == process.mask_id
        sigma, chance = _chances(process, now, then, rule, free & ~mask, mask, written_with)
        chosen, hidden = mask & (where < chance), back < sigma
        logits = predict(x, now, chosen)
        if len(logits):
            tokens = inverse_cdf(logits, what[chosen])
            probability = logits.double().softmax(-1).gather(1, tokens[:, None])[:, 0]
            x, written_with = put(x, chosen, tokens), written_with.masked_scatter(chosen, probability)
        x = process.hide(x, hidden)
        yield Frame(step + 1, then, x, chosen | hidden, predict.calls)


def _chances(
    process: Process, t: Tensor, s: Tensor, rule: Rule, visible: Tensor, mask: Tensor, written_with: Tensor
) -> tuple[Tensor, Tensor]:
    """σ of each visible position, and the probability that each masked one is revealed.

    As many positions are revealed in addition as are remasked: if all share one σ, with probability σ α_t/(1−α_t); if
    each has its own, Σσ is distributed over the masked positions.
    """
    schedule, column = process.schedule, (-1, *[1] * (mask.ndim - 1))
    alpha_t, alpha_s = schedule.alpha(t).view(column), schedule.alpha(s).view(column)
    largest = (schedule.mask_prob(s).view(column) / alpha_t).clamp(max=1).nan_to_num(nan=0.0)
    state = State(alpha_t, alpha_s, largest, visible, written_with)
    ruled = rule(state).nan_to_num(nan=0.0)
    sigma = torch.where(visible, ruled, 0.0)
    if ruled[0].numel() == 1:
        extra = (ruled * alpha_t / schedule.mask_prob(t).view(column)).nan_to_num(nan=0.0)
    else:
        extra = (sigma.flatten(1).sum(1) / number(mask).clamp(min=1)).view(column)
    return sigma, schedule.unmask_prob(s, t).view(column) + extra


def _checked(grid: Tensor) -> Tensor:
    check_grid(grid)
    return grid


def _share(eta: float) -> float:
    require(0 <= eta <= 1, "eta is out of range", got=eta, allowed="0 <= eta <= 1", do="use 0 for no remasking")
    return eta
