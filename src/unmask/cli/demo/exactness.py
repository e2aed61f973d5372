"""The exact core, shown on known distributions: a bound that is tight, and a draw that float32 gets wrong."""

from dataclasses import asdict, dataclass
from typing import Any

import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torch import Tensor

from unmask.core import (
    ContinuousTime,
    Draw,
    ExactK,
    Process,
    Streams,
    estimate_nelbo,
    exact,
    inverse_cdf,
    lattice,
    legacy_joint_gumbel,
)

from ..figures import SCHEDULES
from .stage import Stage

_BITS = 1 / torch.tensor(2.0, dtype=torch.float64).log().item()


@dataclass(frozen=True)
class TightBound:
    """The bound with the exact denoiser, for one schedule or estimator, beside the true value."""

    name: str
    largest_gap: float
    """max |NELBO(x) + log p(x)| in nats over all sequences of a small distribution, with the bound computed exactly."""
    bits_per_token: float
    standard_error: float
    true_bits_per_token: float


@dataclass(frozen=True)
class DrawLaw:
    """How often a way of drawing reveals a token, and a rare token, beside the expected counts."""

    name: str
    draws: int
    expected_revealed: float
    revealed: int
    expected_rare: float
    rare: int
    p_value: float


def show(stage: Stage, draws: int = 48_000) -> dict[str, Any]:
    """Print two tables; `draws` is the number of float32 draws."""
    console = stage.console
    console.print("With the exact denoiser the bound must equal −log p(x) for every x:")
    bounds = tight_bounds(stage.seed)
    console.print(_bounds_table(bounds))
    console.print(
        "\nOne step of a 1,024-step sampler on a Zipf distribution of 50,257 tokens. One float32 draw\n"
        "of tokens and mask together loses rare tokens; unmask draws positions first:",
        soft_wrap=True,
    )
    laws = draw_laws(stage.seed, console, draws=draws)
    console.print(_laws_table(laws))
    return {"bounds": [asdict(b) for b in bounds], "draws": [asdict(d) for d in laws]}


def tight_bounds(seed: int, length: int = 64) -> list[TightBound]:
    """Exact bounds on a distribution small enough to enumerate, estimates on a 27-letter Markov chain."""
    small, chain = exact.TableLaw.random(3, 3, seed), exact.MarkovLaw.random(27, seed)
    x_0 = chain.draw(length, Streams(seed, 8))
    true_bits = -chain.log_prob(x_0).mean().item() * _BITS / length
    rows = []
    for name, schedule in SCHEDULES.items():
        process, tiny = Process(schedule, 27), Process(schedule, 3)
        gap = max(_gap(small, tiny, x, exact.continuous_time(tiny, x, nodes=320)) for x in small.sequences())
        bound = estimate_nelbo(chain.denoiser(process), x_0, ContinuousTime(process, lattice), draws=32, seed=seed)
        rows.append(_tight_bound(name, gap, bound.mean, bound.standard_error, true_bits, length))
    process, tiny = Process(SCHEDULES["linear"], 27), Process(SCHEDULES["linear"], 3)
    gap = max(_gap(small, tiny, x, exact.exact_k(tiny, x)) for x in small.sequences())
    bound = estimate_nelbo(chain.denoiser(process), x_0, ExactK(process), draws=32, seed=seed)
    rows.append(_tight_bound("any, by exact-k", gap, bound.mean, bound.standard_error, true_bits, length))
    return rows


def _gap(law: exact.TableLaw, process: Process, x: Tensor, draw: Draw) -> float:
    bound = exact.exact_nelbo(law.denoiser(process), x, draw, process)
    return abs(bound.total + law.log_prob(x[None])[0]).item()


def _tight_bound(name: str, gap: float, mean: Tensor, error: Tensor, true_bits: float, length: int) -> TightBound:
    standard_error = error.square().sum().sqrt() / len(error)
    return TightBound(name, gap, mean.mean().item() * _BITS / length, standard_error.item() * _BITS / length, true_bits)


def draw_laws(seed: int, console: Console, vocab_size: int = 50_257, draws: int = 48_000) -> list[DrawLaw]:
    """Draw from {tokens: p_v/512, mask: 1 − 1/512}: the step from t = 1/2 of a 1,024-step linear sampler."""
    rare_from, unmask_prob, batch = 3_000, 1 / 512, 64
    logits = -torch.arange(1, vocab_size + 1).double().log()[None]
    probs = logits.softmax(-1)[0]

    streams, many = Streams(seed, 1), 1_000_000  # ours is fast enough for more draws
    revealed = streams.uniform(many)[0] < unmask_prob
    ours = torch.where(revealed, inverse_cdf(logits, streams.uniform(many))[0], vocab_size)

    generator = torch.Generator().manual_seed(seed)
    rows, prob = logits.float().expand(batch, -1), torch.full((batch,), unmask_prob)
    theirs, u = torch.empty(draws, dtype=torch.long), torch.empty(batch, vocab_size + 1)
    starts = range(0, draws, batch)  # into preallocated memory, which avoids fragmentation
    for start in track(starts, "float32 draws", console=console, transient=True):
        torch.rand(u.shape, generator=generator, out=u)
        theirs[start : start + batch] = legacy_joint_gumbel(rows, prob, u)

    def law(name: str, tokens: Tensor) -> DrawLaw:
        kept, rare = unmask_prob * (1 - probs[rare_from:].sum()), unmask_prob * probs[rare_from:].sum()
        expected = len(tokens) * torch.stack([kept, rare, torch.tensor(1 - unmask_prob).double()])
        is_rare, is_mask = (tokens >= rare_from) & (tokens < vocab_size), tokens == vocab_size
        seen = torch.stack([(tokens < rare_from).sum(), is_rare.sum(), is_mask.sum()])
        return DrawLaw(
            name,
            len(tokens),
            round(len(tokens) * unmask_prob, 1),
            int((~is_mask).sum()),
            round(expected[1].item(), 1),
            int(is_rare.sum()),
            chi_square_p_value(seen, expected),
        )

    return [law("unmask", ours), law("joint float32", theirs)]


def chi_square_p_value(seen: Tensor, expected: Tensor) -> float:
    """P(χ² ≥ Σ (seen − expected)²/expected) with one degree of freedom fewer than bins."""
    statistic = ((seen - expected) ** 2 / expected).sum()
    half_freedom = torch.tensor((len(seen) - 1) / 2, dtype=torch.float64)
    return float(torch.special.gammaincc(half_freedom, statistic / 2))


def _bounds_table(rows: list[TightBound]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading, justify in (
        ("schedule", "left"),
        ("largest |bound + log p|", "right"),
        ("estimated bits/token", "right"),
        ("truth", "right"),
    ):
        table.add_column(heading, justify=justify)  # type: ignore[arg-type]
    for r in rows:
        estimate = f"{r.bits_per_token:.4f} ± {r.standard_error:.4f}"
        table.add_row(r.name, f"{r.largest_gap:.1e}", estimate, f"{r.true_bits_per_token:.4f}")
    table.caption = "The geometric schedule stops short of both ends, which loosens its bound."
    table.caption_justify = "left"
    return table


def _laws_table(rows: list[DrawLaw]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("draw")
    for heading in ("draws", "revealed (exp.)", "rank > 3,000 (exp.)", "chi-square p"):
        table.add_column(heading, justify="right")
    for r in rows:
        verdict = "[green]passes[/]" if r.p_value > 1e-3 else "[red]fails[/]"
        table.add_row(
            r.name,
            f"{r.draws:,}",
            f"{r.revealed} ({r.expected_revealed})",
            f"{r.rare} ({r.expected_rare})",
            f"{r.p_value:.1e} {verdict}",
        )
    return table
