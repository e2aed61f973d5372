"""The training loop: a generator of reports, one per step. All randomness is a function of (seed, step, sample).

A run that is stopped, killed or moved resumes from its last checkpoint with exactly the same numbers.
"""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from ..core import Streams, fitting_grid, trusted
from ..core.device import on_gpu
from ..data import Split
from ..data.order import Indices
from ..evaluation import Scores, Sequences, bits, per_unit, score
from ..evaluation.intervals import decimal
from ..mistakes import require
from ..sampling import Predictor, blank, sample
from . import checkpoint
from .average import Average
from .config import TrainingConfig
from .feed import DeviceBatch, Feed
from .method import Method
from .optimizer import build_optimizer
from .rate import rate_factor
from .world import ALONE, World, choose, copy_into, parameters, scalar

BITS = 1 / math.log(2)
_VALIDATION_BATCH = 16


@dataclass(frozen=True)
class Bits:
    """A held-out bound in bits per token, with its standard error over sequences."""

    mean: float
    error: float
    """NaN for a single sequence."""
    split: str
    """Name of the data split."""

    def __str__(self) -> str:
        """The bound as text; the split is named unless it is the validation split."""
        of = "" if self.split == "valid" else f" of {self.split}"
        return f"{self.mean:.4f} ± {decimal(self.error, 4)} bits per token{of}"


@dataclass(frozen=True)
class Report:
    """The result of one training step."""

    step: int
    """Steps completed."""
    loss: float
    """Training loss of this batch, bits per token; the bound only if the weighting gives it (`MD4Config.weighting`)."""
    tokens: int
    seconds: float
    """Duration of the step itself, without validation and saving."""
    gradient: float
    """Norm of the gradient before clipping."""
    rate: float
    """Learning rate, as a fraction of its peak."""
    validation: Bits | None = None
    preview: Tensor | None = None
    """Samples drawn with the averaged weights [B, ...]."""
    saves: bool = False
    """Whether a checkpoint follows; the records of the run must be on disk before the checkpoint is."""
    stop_asked: bool = False
    """Whether any rank was asked to stop."""


@dataclass(frozen=True)
class Launched:
    """A step whose result may not have arrived from the device yet."""

    step: int
    """Steps completed, including this one."""
    values: Tensor
    """Loss in bits, whether to stop, and gradient norm; on the host once `ready`."""
    ready: torch.cuda.Event | None
    tokens: int
    rows: Indices
    rate: float


class Trainer:
    """A method with its optimiser and data; `steps()` trains and yields reports."""

    def __init__(
        self,
        config: TrainingConfig,
        method: Method,
        train: Split,
        valid: Split | None,
        folder: Path,
        device: torch.device,
        world: World = ALONE,
        parallel: str | None = None,
    ):
        strategy = choose(parallel, world)
        _check_share(config, world)
        self.config, self.device, self.world, cuda = config, device, world, on_gpu(device)
        self.stop_asked: Callable[[], bool] = lambda: False
        """Whether this process was asked to stop; all ranks learn of it in the next report."""
        self.method = method.to(device)
        if cuda:  # convolutions are faster with channels last
            method.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        if config.compiled(device):
            method.compile_parts(whole=config.compile == "whole")
            if cuda and world.size == 1:  # with several ranks, gradients are exchanged while they are computed
                method.record(accumulates=config.micro_batch not in (None, config.batch_size))
        self.strategy = strategy(method, world, device, config.mixed(device))
        self.train, self.valid, self.folder = train, valid, folder
        self.feed = Feed(train, config.seed, config.batch_size, device, world)
        self.optimizer = build_optimizer(config.optimizer, method.network, method.own_parameters())
        self.average = Average(method, config.average)
        self.done = 0
        self.best: tuple[float, int] | None = None
        self._first = 0
        """The first step of this process: its data are checked in full, those of later steps are trusted."""
        self._late: Launched | None = None
        self._clock = time.perf_counter()

    def resume(self, warn: Callable[[str], None] = checkpoint.to_stderr) -> int:
        """Load the newest intact checkpoint, if there is one; returns the number of completed steps."""
        path = self.world.from_first(lambda: checkpoint.newest(self.folder, warn))
        if path is not None:
            found = checkpoint.load(path, self.optimizer.tensors(self.method), self.world)
            copy_into(parameters(self.method), found.weights)
            self.average.load(found.average)
            self.optimizer.load(self.method, found.optimizer)
            self.done = self._first = found.step
            self.best = tuple(found.numbers["best"]) if found.numbers.get("best") else None
        return self.done

    def save(self) -> Path:
        """Write a checkpoint of the current state and delete those no longer needed."""
        numbers = {"best": list(self.best) if self.best else None}
        weights, states = parameters(self.method), self.optimizer.tensors(self.method)
        snapshot = checkpoint.Snapshot(self.done, weights, self.average.weights, states, numbers)
        path = checkpoint.save(self.folder, snapshot, self.world)
        if self.world.first:
            checkpoint.prune(self.folder, self.config.keep, self.best[1] if self.best else None, self.done)
        return path

    def steps(self) -> Iterator[Report]:
        """Train from the current step to the last one.

        On a GPU a step is reported once the next one is running, so that the device never waits for the host.
        """
        config = self.config
        self._clock = time.perf_counter()
        while self.done < config.steps:
            launched = self.launch()
            before, self._late = self._late, launched  # set first: a caller that stops here still gets its report
            if before is not None:
                yield self._report(before)
            last = self.done == config.steps
            look, save = last or self.done % config.validate_every == 0, last or self.done % config.save_every == 0
            if look or save or launched.ready is None:
                for report in self.late_reports():
                    looked = self._looked_after(report, look, save)
                    yield looked
                    if looked.saves:
                        self.save()
                        self._clock = time.perf_counter()

    def late_reports(self) -> Iterator[Report]:
        """The report of a step that was launched but not yet reported, if there is one."""
        late, self._late = self._late, None
        if late is not None:
            yield self._report(late)

    def _looked_after(self, report: Report, look: bool, save: bool) -> Report:
        """Add validation and preview to the report of a step, and whether to save."""
        if not (look or save):
            return report
        with torch.compiler.set_stance("force_eager"):  # other batch sizes would each be recompiled
            validation, preview = (self.validate(), self.preview()) if look else (None, None)
        better = validation is not None and (self.best is None or validation.mean < self.best[0])
        if validation is not None and better:
            self.best = (validation.mean, self.done)
        self._clock = time.perf_counter()
        return replace(report, validation=validation, preview=preview, saves=save or better)

    def launch(self) -> Launched:
        """One update, accumulated over micro-batches; noise is numbered by a sample's position in the batch."""
        config, step = self.config, self.done
        batch = self.feed.batch(step)
        share = config.batch_size // self.world.size
        micro = config.at_once(self.world.size)
        loss = torch.zeros((), dtype=torch.float64, device=self.device)
        self.optimizer.zero_grad()
        for start in range(0, share, micro):
            with self.strategy.accumulating(last=start + micro >= share):
                with trusted() if step > self._first else nullcontext():
                    part = self._loss(batch, slice(start, start + micro), step) / batch.tokens
                torch.autograd.backward(part * self.world.size)  # gradients are averaged over ranks
            loss += part.detach()
        norm = scalar(nn.utils.clip_grad_norm_(self.method.parameters(), config.clip))
        rate = rate_factor(config.rate, step, config.steps)
        self.optimizer.step(rate)
        self.average.update(step)
        self.done += 1
        asked = torch.full_like(loss, float(self.stop_asked()))
        shared = self.world.all_reduce(torch.stack([loss * BITS, asked]))
        values, ready = _to_host(torch.cat([shared, norm.double()[None]]))
        return Launched(step + 1, values, ready, batch.tokens, batch.rows, rate)

    def _report(self, launched: Launched) -> Report:
        if launched.ready is not None:
            launched.ready.synchronize()
        loss, asked, norm = launched.values.tolist()
        for what, value in (("loss", loss), ("gradient", norm)):  # either would spoil the weights of every checkpoint
            require(
                math.isfinite(value),
                f"the {what} at step {launched.step - 1} is not finite",
                got=f"{value} on rows {launched.rows[:8].tolist()}…",
                allowed=f"a finite {what}",
                do="lower the learning rate, lengthen the warm-up, or inspect these rows",
            )
        start, self._clock = self._clock, time.perf_counter()
        seconds = self._clock - start
        return Report(launched.step, loss, launched.tokens, seconds, norm, launched.rate, stop_asked=asked > 0)

    def _loss(self, batch: DeviceBatch, part: slice, step: int) -> Tensor:
        """The summed loss of a micro-batch, in nats."""
        config = self.config
        x_0, valid, label = (None if t is None else t[part] for t in (batch.x_0, batch.valid, batch.label))
        share = config.batch_size // self.world.size
        index = self.world.rank * share + torch.arange(share, device=self.device)[part]
        streams = Streams(config.seed, index, step)  # numbered within the whole batch
        if not self.method.network.classes:
            label = None
        if label is not None:  # the class after the last means "no label"
            hidden = streams.fork("labels").uniform() < config.label_dropout
            label = label.masked_fill(hidden, self.method.network.classes)
        with self._precision():
            loss: Tensor = self.strategy.module(x_0, streams, valid=valid, label=label, strata=config.batch_size)
        return loss

    def _precision(self) -> torch.autocast:
        """Autocast to bf16 where the configuration asks for it."""
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.config.mixed(self.device))

    @torch.no_grad()
    def validate(self) -> Bits | None:
        """The bound of the averaged weights on held-out sequences; always the bound, whatever the training loss."""
        if self.valid is None:
            return None
        count, world = min(self.config.validation_sequences, len(self.valid)), self.world
        share = -(-count // world.size)  # the same number on each rank; the last ones may be evaluated twice
        rows = np.sort(self.valid.spread(count))[np.minimum(world.rank + world.size * np.arange(share), count - 1)]
        with self.average.applied(), self.strategy.unsharded(), self._precision():
            own = self._scores(self.valid, rows)
        nats, tokens = (
            world.all_gather(torch.from_numpy(values).to(self.device)).flatten()[:count].cpu().numpy()
            for values in (own.nats, own.tokens)
        )
        scores = Scores(nats, np.zeros(count), tokens, 0, neighbours=self.valid.running)
        figure = bits(per_unit(scores, tokens))
        return Bits(figure.mean, figure.error, self.valid.name)

    def _scores(self, split: Split, rows: Indices) -> Scores:
        """The bound of these rows."""
        estimator, network = self.method.estimator(), self.method.network
        parts = np.split(rows, range(_VALIDATION_BATCH, len(rows), _VALIDATION_BATCH))
        batches = (Sequences.read(split, part, self.device, labels=network.classes > 0) for part in parts)
        draws, seed = 1 if estimator.exact else 4, self.config.seed ^ 1  # a different seed from training
        return Scores.joined(score(network, batches, estimator, draws=draws, repeats=2, seed=seed))

    @torch.no_grad()
    def preview(self) -> Tensor | None:
        """A few samples drawn with the averaged weights by plain ancestral sampling, cycling through the classes."""
        count, network = self.config.preview, self.method.network
        if not count:
            return None
        label = torch.arange(count, device=self.device) % network.classes if network.classes else None
        streams = Streams(self.config.seed, count, device=self.device).fork("preview")
        with self.average.applied(), self.strategy.unsharded(), self._precision():
            process = self.method.estimator().process
            grid = fitting_grid(process.schedule)(self.config.preview_steps)
            counts = torch.from_numpy(self.train.lengths).bincount() if self.train.padded else None
            x = blank(self.train.shape, process.mask_id, streams, counts, self.train.fill)
            family = self.method.family
            predict = Predictor(network, process.mask_id, label, family=family)
            fill = self.train.fill if self.train.padded else None
            return sample(predict, process, x, grid, streams, family.sampler, fill=fill).tokens.cpu()


def _check_share(config: TrainingConfig, world: World) -> None:
    """Every rank gets the same number of sequences (an even one if there are several ranks) in whole micro-batches."""
    size, batch, micro = world.size, config.batch_size, config.micro_batch
    require(
        size == 1 or batch % (2 * size) == 0,
        "the batch cannot be divided among the ranks",
        got=f"{batch} sequences for {size} ranks",
        allowed=f"a multiple of {2 * size}: an even number for each rank",
        do="change the batch size or the number of ranks",
    )
    require(
        micro is None or (batch // size) % micro == 0,
        "the micro-batch does not divide a rank's share",
        got=f"{micro} of {batch // size}",
        allowed="a divisor of the share",
        do="change one of them",
    )


def _to_host(values: Tensor) -> tuple[Tensor, torch.cuda.Event | None]:
    """A copy on the host, and the event after which it is complete."""
    if not on_gpu(values.device):
        return values, None
    copy = torch.empty(values.shape, dtype=values.dtype, pin_memory=True).copy_(values, non_blocking=True)
    ready = torch.cuda.Event()  # type: ignore[no-untyped-call]
    ready.record()
    return copy, ready
