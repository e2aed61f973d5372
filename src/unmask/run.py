"""A run is a folder: config.json, metrics.jsonl, checkpoints. Only here do data, network, method and trainer meet."""

import json
import sys
import time
from collections.abc import Callable, Generator
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch

from .configs import differences, from_json, to_json
from .core import Cosine, Geometric, Linear, Polynomial, Schedule, Shifted
from .data import Dataset, Split
from .data.files import written_whole
from .mistakes import fail, require
from .networks import (
    Conditioning,
    Network,
    Transformer,
    TransformerConfig,
    UNet,
    UNetConfig,
    UViT,
    UViTConfig,
)
from .training.learned import LearnedWeights
from .training.loop import Report, Trainer, TrainingConfig

CONFIG, METRICS, CHECKPOINTS = "config.json", "metrics.jsonl", "checkpoints"
NetworkConfig = TransformerConfig | UNetConfig | UViTConfig

SCHEDULES: dict[str, Callable[[float], Schedule]] = {
    "linear": lambda _: Linear(),
    "cosine": lambda _: Cosine(),
    "geometric": lambda _: Geometric(),
    "polynomial": lambda exponent: Polynomial(exponent),
}


@dataclass(frozen=True)
class MethodConfig:
    """MD4 with a schedule, or GenMD4, which learns one per token."""

    schedule: str = "linear"
    """linear, cosine, geometric or polynomial."""
    exponent: float = 1.0
    """w of the polynomial schedule."""
    shift: float = 0.0
    """ε of the shifted form; the paper used 1e-4, exact-k needs none."""
    learned: bool = False
    """GenMD4: learn an exponent for every token."""

    def __post_init__(self) -> None:
        allowed = ", ".join(SCHEDULES)
        require(self.schedule in SCHEDULES, "unknown schedule", got=self.schedule, allowed=allowed, do="name one")

    def build(self, vocab_size: int) -> Schedule | LearnedWeights:
        """The schedule, or the weights of one to be learned."""
        if self.learned:
            return LearnedWeights(vocab_size)
        schedule = SCHEDULES[self.schedule](self.exponent)
        return Shifted(schedule, self.shift) if self.shift else schedule


@dataclass(frozen=True)
class RunConfig:
    """Everything that decides what a run does."""

    data: str
    """A folder of prepared data."""
    network: NetworkConfig
    method: MethodConfig = field(default_factory=MethodConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    length: int | None = None
    """Tokens per sequence of packed data; None: as prepared."""


def default_config(data: str, method: MethodConfig | None = None, training: TrainingConfig | None = None) -> RunConfig:
    """A small network that fits the data at hand and trains on a laptop."""
    method, training = method or MethodConfig(), training or TrainingConfig()
    manifest = Dataset(data).manifest
    conditioning = Conditioning(time=method.learned, classes=len(manifest.label_names))
    network: NetworkConfig
    if len(manifest.shape) in (2, 3) and manifest.vocabulary_size == 256:
        channels = manifest.shape[2] if len(manifest.shape) == 3 else 1
        network = UNetConfig(256, channels, blocks=3, width=64, groups=16, conditioning=conditioning)
    else:
        places = manifest.length if manifest.rows else 0
        network = TransformerConfig(manifest.vocabulary_size, 4, 4, 128, positions=places, conditioning=conditioning)
    return RunConfig(data, network, method, training)


def build_network(config: NetworkConfig, seed: int) -> Network:
    """A network with its initial weights, which follow from the seed."""
    torch.manual_seed(seed)
    if isinstance(config, TransformerConfig):
        return Transformer(config)
    return UNet(config) if isinstance(config, UNetConfig) else UViT(config)


def open_run(folder: Path) -> RunConfig:
    """The configuration of an existing run."""
    if not (folder / CONFIG).exists():
        fail(
            f"{folder} is not a run", got="no config.json", allowed="a folder made by unmask train", do="check the path"
        )
    config: RunConfig = from_json(RunConfig, json.loads((folder / CONFIG).read_text(encoding="utf-8")))
    return config


def claim(folder: Path, config: RunConfig) -> None:
    """Start a run in a folder, or find that it is the same run."""
    document = json.loads(json.dumps(to_json(config)))
    if (folder / CONFIG).exists():
        changed = differences(json.loads((folder / CONFIG).read_text(encoding="utf-8")), document)
        if changed:
            fail(
                f"{folder} belongs to a run with another configuration",
                got="; ".join(changed),
                allowed="the same configuration",
                do="choose another folder, or take the change back",
            )
        return
    if folder.exists() and any(folder.iterdir()):
        fail(f"{folder} is not empty", got="other files", allowed="a new folder", do="choose another")
    with written_whole(folder / CONFIG, "w") as file:
        json.dump(document, file, indent=1)


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
    require(
        not config.method.learned or config.network.conditioning.time,
        "GenMD4 needs a network that sees the time",
        got="conditioning without time",
        allowed="conditioning.time",
        do="set it",
    )
    require(
        not config.method.learned or config.training.weighting == TrainingConfig.weighting,
        "GenMD4 is trained on its bound only",
        got=f"weighting {config.training.weighting}",
        allowed=TrainingConfig.weighting,
        do="leave the weighting out",
    )
    network = build_network(config.network, config.training.seed)
    schedule = config.method.build(config.network.vocab_size)
    train, held_out = dataset.split("train", config.length), _held_out(dataset, config.length)
    return Trainer(config.training, network, schedule, train, held_out, folder / CHECKPOINTS, device)


def _held_out(dataset: Dataset, length: int | None) -> Split | None:
    for name in ("valid", "test"):
        if name in dataset.splits:
            try:
                return dataset.split(name, length)
            except ValueError:  # shorter than one sequence
                continue
    return None


def train(config: RunConfig, folder: Path, device: torch.device | None = None) -> Generator[Report, None, None]:
    """Train in a folder, from its last checkpoint if it has one; yields a report per step and logs it."""
    device = device or torch.device("cuda" if torch.cuda.is_available() else "cpu")
    trainer = build_trainer(config, folder, device)
    claim(folder, config)
    done = trainer.resume(warn=lambda mistake: print(mistake, file=sys.stderr))
    _truncate(folder / METRICS, done)
    with (folder / METRICS).open("a", encoding="utf-8") as log:
        try:
            for report in trainer.steps():
                log.write(json.dumps(_line(report)) + "\n")
                if report.saved is not None:
                    log.flush()
                yield report
        finally:
            if trainer.done > done and not _saved(folder, trainer.done):
                trainer.save()


def _saved(folder: Path, step: int) -> bool:
    return (folder / CHECKPOINTS / f"step-{step:08d}").exists()


def _line(report: Report) -> dict[str, object]:
    line: dict[str, object] = {"step": report.step, "loss": report.loss, "tokens": report.tokens}
    line["gradient"] = report.gradient
    if report.validation is not None:
        line["validation"] = asdict(report.validation)
    return {**line, "seconds": round(report.seconds, 4), "time": round(time.time(), 2)}


def _truncate(path: Path, done: int) -> None:
    """Forget what was logged after the checkpoint: those steps are about to be done again."""
    if not path.exists():
        return
    kept = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            if json.loads(line)["step"] <= done:
                kept.append(line)
        except ValueError:  # a line cut off by a kill
            continue
    with written_whole(path, "w") as file:
        file.write("".join(f"{line}\n" for line in kept))
