"""The demo's first part: a character model trained from nothing, beside what counting can do."""

from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from unmask.data import Dataset, Plan, prepare
from unmask.evaluation import NGram
from unmask.networks import TransformerConfig
from unmask.run import Run, RunConfig, load
from unmask.training import Bits, MD4Config, OptimizerConfig, RateConfig, TrainingConfig

from . import train

_LENGTH = 64


@dataclass(frozen=True)
class Trained:
    """What came out, in bits per character of the same held-out text."""

    steps: int
    held_out: Bits
    unigram: float
    trigram: float
    samples: list[str]


def train_characters(out: Path, seed: int, steps: int, console: Console) -> Trained | None:
    """Prepare Shakespeare, train, measure, sample; None if stopped by the user, who can go on later."""
    data, run = out / "data", out / "run"
    config = _config(str(data), seed, steps)
    prepare(Plan("shakespeare", length=_LENGTH), data)
    console.print(train.describe(config, (_LENGTH,)), highlight=False)
    if train.train_shown(config, run, (), console) is not None:
        return None
    dataset = Dataset(data)
    known, held_out = (dataset.split(name).stream(0, dataset.split(name).tokens) for name in ("train", "valid"))
    unigram, trigram = (NGram(known, order, dataset.vocabulary.size).bits(held_out) for order in (1, 3))
    bits = next(line["validation"] for line in reversed(Run.open(run).metrics()) if "validation" in line)
    return Trained(steps, Bits(**bits), unigram, trigram, load(run).sample(2, steps=_LENGTH, seed=seed))


def _config(data: str, seed: int, steps: int) -> RunConfig:
    """Muon and plain weights learn fastest in two minutes; the bound is what is reported."""
    training = TrainingConfig(
        steps=steps,
        batch_size=16,
        seed=seed,
        optimizer=OptimizerConfig("muon", rate=4e-3, muon_rate=2e-2),
        rate=RateConfig(warmup=50, cooldown="linear", cooldown_share=0.6),
        average=0.99,
        save_every=500,
        validate_every=500,
        validation_sequences=200,
    )
    return RunConfig(data, TransformerConfig(65, 3, 4, 96), MD4Config(weighting="ce"), training)


def show(trained: Trained, console: Console) -> None:
    """A table and the samples."""
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    table.add_column("model of the same text")
    table.add_column("bits per character, held out", justify="right")
    table.add_row("letter frequencies", f"{trained.unigram:.3f}")
    table.add_row(
        f"masked diffusion, {trained.steps:,} steps (bound)",
        f"{trained.held_out.mean:.3f} ± {trained.held_out.error:.3f}",
    )
    table.add_row("3-gram model", f"{trained.trigram:.3f}")
    console.print(table)
    for text in trained.samples:
        console.print(f"  {' '.join(text.split())}", style="dim", markup=False, highlight=False)
    console.print()


def as_json(trained: Trained) -> dict[str, object]:
    """For programs."""
    return asdict(trained)
