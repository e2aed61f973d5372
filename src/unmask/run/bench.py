"""Training speed and where the time goes: the real trainer on synthetic data.

MFU = tokens/s · FLOP per token / the rate of a large bf16 matrix product measured on the same device. FLOP per token
are those of the model (forward and backward, the head at the masked half), regardless of recomputation.
"""

import functools
import gc
import os
import statistics
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.profiler import ProfilerActivity, profile

from ..core.device import on_gpu
from ..data import Batch
from ..evaluation.loss import chunk_size
from ..networks import Cost, cost
from ..training import Trainer
from .config import RunConfig
from .train import build_network

_PRODUCTS = "matrix products"
_KINDS = (
    ("attention", ("flash", "fmha", "sdpa", "attention", "dot_do_o", "convert_dq")),
    ("head and loss", ("softmax", "nll_loss", "cross_entropy")),
    ("convolutions", ("conv", "implicit", "xmma", "wgrad", "dgrad")),
    (_PRODUCTS, ("gemm", "nvjet", "cutlass", "cublas", "splitk", "addmm", "::mm", "::bmm", "_product")),
    ("optimiser and average", ("multi_tensor", "adam", "foreach", "lerp", "lpnorm")),
    ("norms and elementwise", ("triton", "_norm_", "layer_norm", "silu", "aten::")),
)
"""Kinds of kernels, by parts of their names; the others draw masks and move data."""
_REST = "draws, data and other"
_COMPONENTS = {"attention": "attention", "MLP": "MLP", "head": "head and loss", "rest": "norms and elementwise"}


@dataclass(frozen=True)
class Bench:
    """The results of a benchmark."""

    parameters: int
    flops_per_token: float
    tokens_per_step: int
    tokens_per_s: float
    """Median over the windows."""
    spread: tuple[float, float]
    """Slowest and fastest window."""
    sequences_per_s: float
    peak_gib: float | None
    estimated_gib: float
    ceiling_tflops: float | None
    """Rate of a large bf16 matrix product on this device."""
    mfu: float | None
    first_step_s: float
    """Including compilation."""
    cores: float
    """CPU seconds per second."""
    breakdown: dict[str, float] = field(default_factory=dict)
    """Share of the time by component. The kernel of a matrix product does not reveal its layer, so the time of matrix
    products is divided in proportion to the layers' operations."""
    kernels: list[tuple[str, float]] = field(default_factory=list)
    """The kernels that take the most time, with their shares."""


class MadeUp:
    """Random rows, for measuring speed."""

    padded, fill = False, 0

    def __init__(self, shape: tuple[int, ...], vocab_size: int, classes: int, rows: int = 4096):
        rng = np.random.default_rng(0)
        self.shape = shape
        self._tokens = rng.integers(0, vocab_size, (min(rows, max(64, (1 << 26) // int(np.prod(shape)))), *shape))
        self._labels = rng.integers(0, classes, len(self._tokens)) if classes else None

    def count(self, seed: int, step: int, batch_size: int) -> int:
        """All tokens count."""
        del seed, step
        return batch_size * int(np.prod(self.shape))

    def batch(self, seed: int, step: int, batch_size: int, rank: int = 0, ranks: int = 1) -> Batch:
        """A rank's rows of a step."""
        share = batch_size // ranks
        first = seed + step * batch_size + rank * share
        rows: NDArray[np.int64] = (np.arange(share) + first) % len(self._tokens)
        labels = None if self._labels is None else self._labels[rows]
        return Batch(self._tokens[rows], None, labels, rows)


def measure(
    config: RunConfig,
    shape: tuple[int, ...],
    device: torch.device,
    *,
    windows: int = 5,
    window: int = 10,
    warmup: int = 5,
    breakdown: bool = True,
) -> Bench:
    """Warm up, time several windows of steps, then profile a few."""
    ceiling = _ceiling(device) if on_gpu(device) else None
    network = config.network
    found: Cost = cost(network.build, shape)
    data: Any = MadeUp(shape, network.vocab_size, network.conditioning.classes)
    with device:  # large networks are built faster there; their initial values do not matter here
        method = config.method.build(build_network(network, config.training.seed))
    trainer = Trainer(config.training, method, data, None, Path(), device)
    gc.collect()
    if on_gpu(device):
        torch.cuda.reset_peak_memory_stats()
    start = time.perf_counter()
    _steps(trainer, 1, device)
    first = time.perf_counter() - start
    _steps(trainer, warmup, device)
    speeds, cores = [], -time.process_time()
    began = time.perf_counter()
    tokens = config.training.batch_size * int(np.prod(shape))
    for _ in range(windows):
        start = time.perf_counter()
        _steps(trainer, window, device)
        speeds.append(window * tokens / (time.perf_counter() - start))
    speed = statistics.median(speeds)
    cores = (cores + time.process_time()) / (time.perf_counter() - began)
    peak = torch.cuda.max_memory_allocated() / 2**30 if on_gpu(device) else None
    shares, kernels = _look_inside(trainer, device, found.shares) if breakdown else ({}, [])
    at_once, mixed = config.training.at_once(), config.training.mixed(device)
    return Bench(
        parameters=found.parameters,
        flops_per_token=found.flops_per_token,
        tokens_per_step=tokens,
        tokens_per_s=speed,
        spread=(min(speeds), max(speeds)),
        sequences_per_s=speed / int(np.prod(shape)),
        peak_gib=peak,
        estimated_gib=found.memory(at_once, mixed, chunk_size(network.vocab_size)) / 2**30,
        ceiling_tflops=ceiling,
        mfu=None if ceiling is None else speed * found.flops_per_token / ceiling / 1e12,
        first_step_s=first,
        cores=cores,
        breakdown=shares,
        kernels=kernels,
    )


def _steps(trainer: Trainer, count: int, device: torch.device) -> None:
    """Run this many updates and wait for them."""
    for _ in range(count):
        trainer.launch()
    if on_gpu(device):
        torch.cuda.synchronize()


def _look_inside(
    trainer: Trainer, device: torch.device, products: dict[str, float]
) -> tuple[dict[str, float], list[tuple[str, float]]]:
    """Shares of the time by component, from the kernels (operations on a CPU); time outside of them is idle."""
    cuda = on_gpu(device)
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # the profiler's own chatter
    activities = [ProfilerActivity.CUDA] if cuda else [ProfilerActivity.CPU]
    with profile(activities=activities) as profiled:
        _steps(trainer, 1, device)
        start = time.perf_counter()
        _steps(trainer, 3, device)
        wall = (time.perf_counter() - start) * 1e6 * 4 / 3
    times: dict[str, float] = defaultdict(float)
    for event in profiled.key_averages():
        times[event.key] += event.self_device_time_total if cuda else event.self_cpu_time_total
    busy = sum(times.values())
    wall = max(wall, busy)
    shares: dict[str, float] = defaultdict(float)
    for name, microseconds in times.items():
        shares[_kind(name)] += microseconds / wall
    together = shares.pop(_PRODUCTS, 0.0)
    for part, share in products.items():
        shares[_COMPONENTS[part]] += together * share
    shares["idle"] = max(0.0, 1 - busy / wall)
    largest = sorted(times.items(), key=lambda item: -item[1])[:15]
    return dict(shares), [(name[:160], microseconds / wall) for name, microseconds in largest]


def _kind(name: str) -> str:
    lower = name.lower()
    return next((kind for kind, marks in _KINDS if any(mark in lower for mark in marks)), _REST)


@functools.cache
def _ceiling(device: torch.device, size: int = 8192) -> float:
    """TFLOP/s of a bf16 matrix product of random numbers; measured once, since a hot device is slower."""
    a, b = (torch.randn(size, size, device=device, dtype=torch.bfloat16) for _ in range(2))
    times = list(_timed(a, b))
    return 2 * size**3 / statistics.median(times) / 1e12


def _timed(a: torch.Tensor, b: torch.Tensor, repeats: int = 20) -> Iterator[float]:
    for repeat in range(repeats + 3):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        start.record()
        a @ b
        end.record()
        torch.cuda.synchronize()
        if repeat >= 3:
            yield start.elapsed_time(end) / 1e3
