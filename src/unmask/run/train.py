"""Training in a folder: wiring, logs, previews, and a checkpoint whenever it ends."""

from collections.abc import Callable, Generator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch

from ..configs import differences, to_json
from ..core.device import best_device, on_gpu
from ..data import Dataset, Split, Vocabulary
from ..files import alone
from ..mistakes import fail, require
from ..networks import Network
from ..training import Method, Report, Trainer
from ..training.checkpoint import steps_in
from ..training.world import ALONE, World, joined
from .config import NetworkConfig, RunConfig
from .folder import SAMPLES, Run
from .places import find_model
from .previews import write_preview
from .sinks import SINKS, check_sinks, metrics_file


def build_network(config: NetworkConfig, seed: int) -> Network:
    """Build a network with initial weights that are determined by the seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return config.build()


def build_trainer(
    config: RunConfig, folder: Path, device: torch.device, world: World = ALONE, parallel: str | None = None
) -> Trainer:
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
    if config.start is not None and not steps_in(Run(folder).checkpoints):  # else training resumes from there
        _begin_with(config.start, config, method, dataset)
    train, (valid, _) = dataset.split("train", config.length), held_out(dataset, config.length)
    method.check_shape(train.shape)
    return Trainer(config.training, method, train, valid, Run(folder).checkpoints, device, world, parallel)


def _begin_with(model: str, config: RunConfig, method: Method, dataset: Dataset) -> None:
    """Load the averaged weights of a model with the same network, method and vocabulary."""
    folder = find_model(model)
    for what, got, allowed in (
        ("network", config.network, folder.config.network),
        ("method", config.method, folder.config.method),
        ("vocabulary", dataset.vocabulary, folder.vocabulary),
    ):
        do = f"prepare the data with --vocabulary {model}" if what == "vocabulary" else f"leave it as in {model}"
        if got != allowed:
            changes = "; ".join(differences(_document(allowed), _document(got)))
            fail(f"{model} has another {what}", got=changes, allowed="the same", do=do)
    method.load_state_dict(folder.weights(average=True, best=False))


def _document(part: Any) -> Any:
    return part.to_json() if isinstance(part, Vocabulary) else to_json(part)


def held_out(dataset: Dataset, length: int | None = None) -> tuple[Split | None, str | None]:
    """The split that training is monitored on, if any, and a message for the user unless it is valid."""
    why: list[str] = []
    for name in ("valid", "test"):
        if name not in dataset.splits:
            why.append(f"the data has no {name}")
            continue
        try:
            split = dataset.split(name, length)
        except ValueError:  # shorter than one sequence
            why.append(f"{name} is shorter than one sequence ({dataset.manifest.splits[name].tokens:,} tokens)")
            continue
        do = f"{_more(dataset)} to keep test for the end"
        return split, f"training is monitored on {name}, since {why[0]}; {do}" if why else None
    return None, f"training is not monitored, since {' and '.join(why)}; {_more(dataset)}"


def _more(dataset: Dataset) -> str:
    """How to get a split to monitor training on."""
    there = "valid" in dataset.splits
    return f"prepare the data with {'a larger --valid or a smaller --length' if there else '--valid 0.05 or more'}"


def train(
    config: RunConfig,
    folder: Path,
    device: torch.device | None = None,
    log: tuple[str, ...] = (),
    *,
    parallel: str | None = None,
    stop_asked: Callable[[], bool] = lambda: False,
) -> Generator[Report, None, None]:
    """Train in a folder, resuming from its last checkpoint if it has one; yields and logs a report per step.

    Closing the generator saves a checkpoint. `log` names additional sinks (`SINKS`). Under torchrun every rank calls
    this, and `parallel` names a strategy (`STRATEGIES`). `stop_asked` is checked in every step; if it is true on one
    rank, the reports of all ranks say so.
    """
    device = device or best_device()
    check_sinks(log)
    with joined(device) as world:
        place = torch.device("cuda", world.local) if on_gpu(device) else device
        yield from _train(config, folder, place, log, world, parallel, stop_asked)


def _train(
    config: RunConfig,
    folder: Path,
    device: torch.device,
    log: tuple[str, ...],
    world: World,
    parallel: str | None,
    stop_asked: Callable[[], bool],
) -> Generator[Report, None, None]:
    """Separate from `train` so that everything that communicates with other ranks is gone before they disconnect."""
    trainer = build_trainer(config, folder, device, world, parallel)
    trainer.stop_asked = stop_asked
    with ExitStack() as stack:
        with world.first_only() as ours:
            if ours:
                stack.enter_context(alone(folder))
            run = Run.start(folder, config) if ours else Run(folder)
        done = trainer.resume()
        vocabulary, facts = run.vocabulary, run.facts
        wanted = (metrics_file, *(SINKS[name] for name in log)) if world.first else ()
        sinks = [stack.enter_context(sink(run, done)) for sink in wanted]

        def take(report: Report) -> None:
            if report.preview is not None and world.first:
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
                trainer.save()
                raise
