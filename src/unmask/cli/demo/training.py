"""A model of the user's own: Shakespeare from scratch, or the shipped model fine-tuned on their text."""

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from rich.table import Table

from unmask.data import Dataset, Plan, prepare
from unmask.evaluation import NGram
from unmask.networks import TransformerConfig
from unmask.run import Run, RunConfig, finetuning_config, load
from unmask.run.evaluate import Evaluation, Result, evaluate
from unmask.run.places import shipped_model
from unmask.training import MD4Config, OptimizerConfig, RateConfig, TrainingConfig

from .. import data as data_command
from .. import train
from .stage import DemoStoppedError, Stage

_LENGTH = 64
_MEASURED = 128
"""Held-out sequences of the final measurement."""


@dataclass(frozen=True)
class Row:
    """A model and its bits per character on the same held-out text."""

    name: str
    bits_per_character: float
    error: float | None = None
    """Standard error, for an estimated bound."""


def train_model(stage: Stage) -> dict[str, Any]:
    """Prepare, train with live progress, measure with an error bar, and sample."""
    learn = _shakespeare if stage.text is None else _go_on
    rows, run = learn(stage)
    stage.console.print(_table(rows))
    samples = load(run).sample(2, steps=_LENGTH, seed=stage.seed)
    for text in samples:
        stage.console.print(f"  {' '.join(text.split())}", style="dim", markup=False)
    return {"run": str(run), "held_out": [asdict(row) for row in rows], "samples": samples}


def _shakespeare(stage: Stage) -> tuple[list[Row], Path]:
    """Train from scratch, and compare with n-gram counts."""
    data, run = stage.out / "data", stage.out / "run"
    prepare(Plan("shakespeare", length=_LENGTH), data)
    _train(_characters(str(data), stage.seed, stage.steps), run, stage)
    dataset = Dataset(data)
    known, held_out = (dataset.split(name).stream(0, dataset.split(name).tokens) for name in ("train", "valid"))
    unigram, trigram = (NGram(known, order, dataset.vocabulary.size).bits(held_out) for order in (1, 3))
    rows = [
        Row("letter frequencies", unigram),
        _row(f"masked diffusion, {stage.steps:,} steps (bound)", _measured(run)),
        Row("3-gram model", trigram),
    ]
    return rows, run


def _go_on(stage: Stage) -> tuple[list[Row], Path]:
    """The shipped model, before and after fine-tuning on the user's text."""
    data, run = stage.out / "text", stage.out / "text-run"
    vocabulary = data_command.vocabulary_of("demo")
    # A short text is enough: the held-out part must be at least one sequence of the model.
    prepare(Plan(str(stage.text), vocabulary=vocabulary, length=_LENGTH, valid=0.2, test=0.0), data)
    config = finetuning_config("demo", str(data))
    how = replace(config.training, steps=min(stage.steps, 200), seed=stage.seed, validation_sequences=16, preview=0)
    _train(replace(config, training=how, length=None), run, stage)
    before = evaluate(replace(shipped_model("demo"), below=stage.out), _wanted(str(data)))
    return [_row("the shipped model (bound)", before), _row("fine-tuned on your text (bound)", _measured(run))], run


def _train(config: RunConfig, run: Path, stage: Stage) -> None:
    stage.console.print(train.describe(config, (_LENGTH,)), soft_wrap=True)
    if train.train_shown(config, run, (), stage.console) is not None:
        raise DemoStoppedError


def _wanted(data: str | None = None) -> Evaluation:
    return Evaluation("valid", data=data, sequences=_MEASURED, draws=4, repeats=2)


def _measured(run: Path) -> Result:
    return evaluate(Run.open(run), _wanted())


def _row(name: str, result: Result) -> Row:
    figure = result.bits()["character"]
    return Row(name, figure.mean, figure.error)


def _characters(data: str, seed: int, steps: int) -> RunConfig:
    """Muon and cross-entropy weighting learn fastest in a minute; the bound is what is reported."""
    training = TrainingConfig(
        steps=steps,
        batch_size=16,
        seed=seed,
        optimizer=OptimizerConfig("muon", rate=4e-3, muon_rate=2e-2),
        rate=RateConfig(warmup=50, cooldown="linear", cooldown_share=0.6),
        average=0.99,
        save_every=500,
        validate_every=500,
        validation_sequences=64,
        preview=0,
    )
    return RunConfig(data, TransformerConfig(65, 3, 4, 96), MD4Config(weighting="ce"), training)


def _table(rows: list[Row]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    table.add_column("model of the same text")
    table.add_column("bits per character, held out", justify="right")
    for row in rows:
        error = "" if row.error is None else f" ± {row.error:.3f}"
        table.add_row(row.name, f"{row.bits_per_character:.3f}{error}")
    return table
