"""Training in a folder: wiring, logs, previews, and a checkpoint whenever it ends."""

import sys
from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path

import torch

from ..data import Dataset, Split
from ..mistakes import require
from ..networks import Network
from ..training import Report, Trainer
from .config import NetworkConfig, RunConfig
from .folder import SAMPLES, Run
from .previews import write_preview
from .sinks import SINKS, check_sinks, metrics_file


def build_network(config: NetworkConfig, seed: int) -> Network:
    """A network with its initial weights, which follow from the seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return config.build()


def build_trainer(config: RunConfig, folder: Path, device: torch.device) -> Trainer:
    """Wire data, network, method and trainer together."""
    dataset = Dataset(config.data)
    require(
        dataset.vocabulary.size == config.network.vocab_size,
        "the vocabulary does not match the network",
        got=f"{dataset.vocabulary.size} tokens in {config.data}",
        allowed=f"{config.network.vocab_size}, as in the configuration",
        do="prepare the data with the network's vocabulary, or change the network",
    )
    method = config.method.build(build_network(config.network, config.training.seed))
    train, held_out = dataset.split("train", config.length), _held_out(dataset, config.length)
    return Trainer(config.training, method, train, held_out, Run(folder).checkpoints, device)


def _held_out(dataset: Dataset, length: int | None) -> Split | None:
    for name in ("valid", "test"):
        if name in dataset.splits:
            try:
                return dataset.split(name, length)
            except ValueError:  # shorter than one sequence
                continue
    return None


def train(
    config: RunConfig, folder: Path, device: torch.device | None = None, log: tuple[str, ...] = ()
) -> Generator[Report, None, None]:
    """Train in a folder, from its last checkpoint if it has one; yields a report per step and logs it.

    Closing the generator saves. `log` names further sinks (`SINKS`).
    """
    device = device or torch.device("cuda" if torch.cuda.is_available() else "cpu")
    check_sinks(log)
    trainer = build_trainer(config, folder, device)
    run = Run.start(folder, config)
    done = trainer.resume(warn=lambda mistake: print(mistake, file=sys.stderr))
    vocabulary, facts = run.vocabulary, run.facts
    with ExitStack() as stack:
        sinks = [stack.enter_context(sink(run, done)) for sink in (metrics_file, *(SINKS[name] for name in log))]

        def take(report: Report) -> None:
            if report.preview is not None:
                write_preview(run.folder / SAMPLES, report.step, report.preview, vocabulary, facts)
            for sink in sinks:
                sink(report)

        for report in trainer.steps():
            take(report)
            try:
                yield report
            except GeneratorExit:
                for late in trainer.late_reports():
                    take(late)
                if report.saved is None or trainer.done > report.step:
                    trainer.save()
                raise
