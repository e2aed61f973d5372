"""How far each estimator of the bound scatters around −log p(x), which the oracle knows.

Two 27-letter Markov chains (random rows; the letter pairs of text8), sequences of 256 letters, 16 evaluations
of the exact denoiser per estimate. The variance of independent masks at uniform t is formally infinite
(∫ dt/t), and its measured value is a matter of luck. The reference of the ratios is therefore the paper's own setting,
a linear schedule shifted by 1e-4, which cuts that integral off. The unshifted rows show what happens without the shift.

    python -m benchmarks.estimator_variance
    python -m benchmarks.estimator_variance --tokens

With --tokens, GenMD4 is measured instead: the most frequent letter has w = 8, the others 1.
"""

import json
from dataclasses import dataclass
from math import log
from pathlib import Path
from typing import Any

import torch
import tyro
from torch import Tensor

from unmask.core import (
    ContinuousTime,
    Controlled,
    Estimator,
    ExactK,
    Linear,
    PowerK,
    Process,
    Shifted,
    Streams,
    TokenExactK,
    TokenPolynomial,
    TokenTime,
    balanced,
    fit_surprise,
    iid,
    lattice,
    paired,
    stratified,
)
from unmask.core.exact import MarkovLaw

from .record import Record


@dataclass(frozen=True)
class Options:
    """What to measure."""

    length: int = 256
    draws: int = 16
    """Evaluations of the denoiser per estimate."""
    sequences: int = 64
    repeats: int = 100
    """Independent estimates per sequence."""
    batch: int = 10
    """Estimates per sequence computed at once."""
    seed: int = 0
    device: str = "cpu"
    tokens: bool = False
    """A schedule for each token (GenMD4) instead of one for all."""


def chains(seed: int) -> dict[str, MarkovLaw]:
    """The Markov chains to measure on. Letter pairs were counted on the 90 M training characters of text8."""
    pairs = torch.tensor(json.loads((Path(__file__).parent / "text8_bigrams.json").read_text())).double() + 0.5
    return {
        "random rows": MarkovLaw.random(27, seed),
        "letter pairs of text8": MarkovLaw.stationary(pairs / pairs.sum(1, keepdim=True)),
    }


def estimators(process: Process, law: MarkovLaw, options: Options) -> dict[str, Estimator]:
    """The estimators to compare, the reference first."""
    unigram = -law.initial.log()
    pilot = law.draw(options.length, Streams(options.seed, 64).fork("pilot sequences"))
    fitted = fit_surprise(law.denoiser(process), pilot, ExactK(process))
    importance = ExactK(process, balanced, PowerK(0.5))
    shifted = Process(Shifted(process.schedule, 1e-4), process.vocab_size)
    return {
        "iid t, independent masks": ContinuousTime(shifted, iid),
        "Algorithm 1 t, independent masks": ContinuousTime(shifted, lattice),
        "iid t, independent masks, not shifted": ContinuousTime(process, iid),
        "Algorithm 1 t, independent masks, not shifted": ContinuousTime(process, lattice),
        "iid k": ExactK(process, iid),
        "stratified k": ExactK(process, stratified),
        "balanced k": ExactK(process, balanced),
        "paired k and N+1−k": ExactK(process, paired),
        "stratified k, unigram control": Controlled(ExactK(process, stratified), unigram),
        "stratified k ∝ 1/k": ExactK(process, stratified, PowerK(1.0)),
        "stratified k ∝ 1/√k": ExactK(process, stratified, PowerK(0.5)),
        "balanced k ∝ 1/√k": importance,
        "stratified k ∝ 1/√k, unigram control": Controlled(ExactK(process, stratified, PowerK(0.5)), unigram),
        "balanced k ∝ 1/√k, unigram control": Controlled(importance, unigram),
        "balanced k ∝ 1/√k, fitted control": Controlled(importance, fitted, beta=1.0),
    }


def token_estimators(law: MarkovLaw) -> dict[str, Estimator]:
    """The estimators for GenMD4, the reference first. The paper draws t uniformly, which also has infinite variance."""
    w = torch.where(law.initial == law.initial.max(), 8.0, 1.0).double()
    process = Process(TokenPolynomial(w), law.vocab_size)
    return {
        "iid t = u², independent masks": TokenTime(process, iid),
        "Algorithm 1 t = u², independent masks": TokenTime(process, lattice),
        "race, iid k": TokenExactK(process, iid),
        "race, stratified k": TokenExactK(process, stratified),
        "race, paired k and N+1−k": TokenExactK(process, paired),
        "race, balanced k ∝ 1/√k": TokenExactK(process, balanced, PowerK(0.5)),
    }


def errors(estimator: Estimator, law: MarkovLaw, x_0: Tensor, options: Options) -> Tensor:
    """Estimate minus truth in bits per letter, [repeats, sequences]."""
    denoiser, process = law.denoiser(estimator.process), estimator.process
    rows = x_0.repeat(options.batch, 1).repeat_interleave(options.draws, 0)
    found = []
    for step in range(options.repeats // options.batch):
        draw = estimator.draw(rows, Streams(options.seed + 1, len(rows), step), strata=options.draws)
        total = estimator.nelbo(denoiser(process.hide(rows, draw.mask), draw.t)[draw.mask], rows, draw).total
        found.append(total.view(options.batch, len(x_0), options.draws).mean(2) + law.log_prob(x_0))
    return torch.cat(found) / (options.length * log(2))


def measure(law: MarkovLaw, options: Options) -> list[dict[str, Any]]:
    """One row per estimator. The variance is taken around the true value, so it includes any bias."""
    measured = token_estimators(law) if options.tokens else estimators(Process(Linear(), law.vocab_size), law, options)
    x_0 = law.draw(options.length, Streams(options.seed, options.sequences))
    rows: list[dict[str, Any]] = []
    reference = None
    for name, estimator in measured.items():
        error = errors(estimator, law, x_0, options)
        variance = error.square().mean(0)  # per sequence
        reference = variance if reference is None else reference
        rows.append(
            {
                "estimator": name,
                "sd_bits_per_letter": variance.mean().sqrt().item(),
                "variance_reduction": (reference.mean() / variance.mean()).item(),
                "variance_reduction_95": bootstrap_ratio(reference, variance, options.seed),
                "bias_z": (error.mean() / (error.mean(1).std() / len(error) ** 0.5)).item(),
            }
        )
        print(f"{name:40s} sd {rows[-1]['sd_bits_per_letter']:.4f}  x{rows[-1]['variance_reduction']:.1f}", flush=True)
    return rows


def main(options: Options) -> None:
    torch.set_default_device(options.device)
    record = Record("race_variance" if options.tokens else "estimator_variance", options.seed)
    laws = chains(options.seed)
    record.write(
        options=vars(options),
        chains=[
            {
                "chain": name,
                "entropy_bits_per_letter": law.entropy(options.length) / (options.length * log(2)),
                "rows": measure(law, options),
            }
            for name, law in laws.items()
        ],
    )


def bootstrap_ratio(baseline: Tensor, other: Tensor, seed: int) -> list[float]:
    """95 % interval of the ratio of mean squared errors, resampling sequences."""
    pick = (Streams(seed, 2000).uniform(len(other)) * len(other)).long()
    ratio = baseline[pick].mean(1) / other[pick].mean(1)
    return [ratio.quantile(q).item() for q in (0.025, 0.975)]


if __name__ == "__main__":
    main(tyro.cli(Options))
