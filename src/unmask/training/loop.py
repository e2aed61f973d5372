"""The training loop: a generator of reports, one per step. Everything random is a function of (seed, step, sample).

A run that is stopped, killed or moved goes on from its last checkpoint with the very same numbers.
"""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from ..core import (
    Draw,
    Estimator,
    ExactK,
    PowerK,
    Process,
    Schedule,
    Streams,
    TokenTime,
    balanced,
    estimate_nelbo,
    stratified,
)
from ..data import Batch, Split
from ..mistakes import fail, require
from ..networks import Network
from . import checkpoint
from .average import Average
from .learned import LearnedWeights, rloo_loss
from .loss import chunked_nelbo
from .optimizer import OptimizerConfig, build_optimizer
from .rate import RateConfig, rate_factor

BITS = 1 / math.log(2)


@dataclass(frozen=True)
class TrainingConfig:
    """How to train."""

    steps: int = 2000
    batch_size: int = 32
    """Sequences per step, over all micro-batches."""
    micro_batch: int | None = None
    """Sequences at once; smaller ones save memory and change nothing else. None: the whole batch."""
    seed: int = 0
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    rate: RateConfig = field(default_factory=RateConfig)
    clip: float = 1.0
    """Largest norm of the gradient."""
    average: float = 0.9999
    """Decay of the moving average of the weights."""
    weighting: str = "elbo"
    """elbo (the bound itself) or ce (every masked token counts the same)."""
    label_dropout: float = 0.1
    """Share of samples that hide their class, for guidance."""
    save_every: int = 200
    keep: int = 2
    """Checkpoints kept besides the best."""
    validate_every: int = 200
    validation_sequences: int = 64

    def __post_init__(self) -> None:
        allowed = ", ".join(WEIGHTINGS)
        require(self.weighting in WEIGHTINGS, "unknown weighting", got=self.weighting, allowed=allowed, do="name one")
        for name in ("steps", "batch_size", "save_every", "keep", "validate_every", "validation_sequences"):
            value = getattr(self, name)
            require(value >= 1, f"{name} is not positive", got=value, allowed="an integer >= 1", do="raise it")
        micro = self.micro_batch
        require(
            micro is None or (micro >= 1 and self.batch_size % micro == 0),
            "the micro-batch does not divide the batch",
            got=f"{micro} of {self.batch_size}",
            allowed="a divisor of the batch size",
            do="change one of them",
        )


def _elbo(draw: Draw, tokens: Tensor) -> Draw:
    del tokens
    return draw


def _plain(draw: Draw, tokens: Tensor) -> Draw:
    """Each masked token weighs the same, scaled so that a batch weighs as much as under the bound."""
    masked = draw.mask.flatten(1).sum(1)
    return replace(draw, weight=(tokens.sum() / masked.sum().clamp(min=1)).double().expand(len(tokens)))


WEIGHTINGS = {"elbo": _elbo, "ce": _plain}


@dataclass(frozen=True)
class Bits:
    """A held-out bound in bits per token, with its standard error over sequences."""

    mean: float
    error: float


@dataclass(frozen=True)
class Report:
    """What one step did."""

    step: int
    """Steps done."""
    loss: float
    """Bits per token of this batch."""
    tokens: int
    seconds: float
    gradient: float
    """Norm of the gradient before clipping."""
    validation: Bits | None = None
    saved: Path | None = None


class Trainer:
    """A network, its optimiser and its data; `steps()` trains and yields."""

    def __init__(
        self,
        config: TrainingConfig,
        network: Network,
        schedule: Schedule | LearnedWeights,
        train: Split,
        valid: Split | None,
        folder: Path,
        device: torch.device,
    ):
        self.config, self.network, self.device = config, network.to(device), device
        self.train, self.valid, self.folder = train, valid, folder
        learned = schedule if isinstance(schedule, LearnedWeights) else None
        self.learned = learned.to(device) if learned is not None else None
        self._schedule = None if isinstance(schedule, LearnedWeights) else schedule
        parts = {"network": network} | ({"schedule": learned} if learned is not None else {})
        self.module = nn.ModuleDict(parts)
        self.optimizer = build_optimizer(config.optimizer, network, list(learned.parameters()) if learned else None)
        self.average = Average(self.module, config.average)
        self.done = 0
        self.best: tuple[float, int] | None = None

    def resume(self, warn: Callable[[str], None] = print) -> int:
        """Go to the newest whole checkpoint, if there is one; returns the steps done."""
        found = checkpoint.load_latest(self.folder, self.device, warn)
        if found is not None:
            self.module.load_state_dict(found.weights)
            self.average.load(found.average)
            self.optimizer.load_state_dict(found.optimizer)
            self.done = found.step
            self.best = tuple(found.numbers["best"]) if found.numbers.get("best") else None
        return self.done

    def save(self) -> Path:
        """Write a checkpoint of the present state, and delete those no longer needed."""
        weights = dict(self.module.state_dict())
        numbers = {"best": list(self.best) if self.best else None}
        states = self.optimizer.state_dict()
        path = checkpoint.save(
            self.folder, checkpoint.Snapshot(self.done, weights, self.average.weights, states, numbers)
        )
        checkpoint.prune(self.folder, self.config.keep, self.best[1] if self.best else None)
        return path

    def steps(self) -> Iterator[Report]:
        """Train from where we are to the last step."""
        config = self.config
        while self.done < config.steps:
            start = time.perf_counter()
            loss, tokens, norm = self._step(self.done)
            self.done += 1
            last = self.done == config.steps
            validation = self.validate() if last or self.done % config.validate_every == 0 else None
            if validation is not None and (self.best is None or validation.mean < self.best[0]):
                self.best = (validation.mean, self.done)
            saved = self.save() if last or self.done % config.save_every == 0 else None
            yield Report(self.done, loss, tokens, time.perf_counter() - start, norm, validation, saved)

    def _step(self, step: int) -> tuple[float, int, float]:
        """One update from micro-batches whose noise is numbered by their place in the batch."""
        config = self.config
        batch = self.train.batch(config.seed, step, config.batch_size)
        total = _count(batch)
        micro = config.micro_batch or config.batch_size
        loss = torch.zeros((), dtype=torch.float64, device=self.device)
        self.optimizer.zero_grad()
        for start in range(0, config.batch_size, micro):
            part = self._loss(batch, slice(start, start + micro), step) / total
            torch.autograd.backward(part)
            loss += part.detach()
        norm = nn.utils.clip_grad_norm_(self.module.parameters(), config.clip)
        bits = loss.item() * BITS
        if not math.isfinite(bits):
            fail(
                f"the loss at step {step} is not finite",
                got=f"{bits} on rows {batch.rows[:8].tolist()}…",
                allowed="a finite loss",
                do="lower the learning rate, lengthen the warm-up, or look at these rows",
            )
        self.optimizer.step(rate_factor(config.rate, step, config.steps))
        self.average.update(step)
        return bits, total, norm.item()

    def _loss(self, batch: Batch, part: slice, step: int) -> Tensor:
        """The summed loss of a micro-batch, nats."""
        config = self.config
        x_0 = torch.from_numpy(batch.tokens[part]).to(self.device)
        valid = None if batch.valid is None else torch.from_numpy(batch.valid[part]).to(self.device)
        index = torch.arange(config.batch_size, device=self.device)[part]
        streams = Streams(config.seed, index, step)
        label = self._label(batch, part, streams)
        with self._precision():
            if self.learned is not None:
                strata = config.batch_size
                return rloo_loss(
                    self.network, self.learned, x_0, streams, valid=valid, label=label, strata=strata
                ).sum()
            estimator = ExactK(self._process(), stratified)
            draw = estimator.draw(x_0, streams, valid=valid, strata=config.batch_size)
            tokens = draw.mask.new_ones(draw.mask.shape) if valid is None else valid
            draw = WEIGHTINGS[config.weighting](draw, tokens.flatten(1).sum(1))
            features = self.network.features(estimator.process.hide(x_0, draw.mask), draw.t, label, streams)
            return chunked_nelbo(self.network, features, x_0, draw, estimator).total.sum()

    def _precision(self) -> torch.autocast:
        """bf16 where the hardware is fast at it; weights, losses and averages stay float32."""
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda")

    def _label(self, batch: Batch, part: slice, streams: Streams) -> Tensor | None:
        """Classes, hidden from a share of the samples (the class after the last means "no label")."""
        if batch.labels is None or not self.network.classes:
            return None
        label = torch.from_numpy(batch.labels[part]).to(self.device)
        hidden = streams.fork("labels").uniform() < self.config.label_dropout
        return label.masked_fill(hidden, self.network.classes)

    def _process(self) -> Process:
        if self._schedule is None:
            fail("a learned schedule is not scalar", got="GenMD4", allowed="a scalar schedule", do="use rloo_loss")
        return Process(self._schedule, self.network.vocab_size)

    def estimator(self) -> Estimator:
        """The estimator that measures the bound: low variance, unbiased."""
        if self.learned is not None:
            return TokenTime(self.learned.process())
        return ExactK(self._process(), balanced, PowerK(0.5))

    @torch.no_grad()
    def validate(self) -> Bits | None:
        """The bound of the averaged weights on held-out sequences; always the bound, whatever was trained on."""
        if self.valid is None:
            return None
        count = min(self.config.validation_sequences, len(self.valid))
        values = []
        with self.average.applied():
            estimator = self.estimator()
            for start in range(0, count, 16):
                rows = np.arange(start, min(start + 16, count))
                values.append(self._bits(self.valid.read(rows), estimator, torch.from_numpy(rows)))
        bits = torch.cat(values)
        return Bits(bits.mean().item(), (bits.std() / len(bits) ** 0.5).item() if len(bits) > 1 else math.nan)

    def _bits(self, batch: Batch, estimator: Estimator, index: Tensor) -> Tensor:
        x_0 = torch.from_numpy(batch.tokens).to(self.device)
        valid = None if batch.valid is None else torch.from_numpy(batch.valid).to(self.device)
        known = batch.labels is not None and self.network.classes > 0
        label = torch.from_numpy(batch.labels).to(self.device) if known else None
        lengths = x_0.flatten(1).shape[1] if valid is None else valid.flatten(1).sum(1)
        with self._precision():
            bound = estimate_nelbo(
                self.network,
                x_0,
                estimator,
                draws=4,
                repeats=2,
                seed=self.config.seed + 1,
                index=index.to(self.device),
                valid=valid,
                condition=label,
            )
        return (bound.mean * BITS / lengths).cpu()


def _count(batch: Batch) -> int:
    return int(batch.tokens.size if batch.valid is None else batch.valid.sum())
