"""Sampling speed, compared with a straightforward implementation of the same distribution."""

import math
import statistics
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from ..core import Linear, Process, Streams, uniform_grid
from ..core.device import mixed, on_gpu
from ..networks import Network, Replayed
from ..sampling import Predictor, trajectory


@dataclass(frozen=True)
class SampleSpeed:
    """The speed of one way to sample."""

    way: str
    seconds: float
    """Time for a whole batch, the median of several."""
    samples: int
    calls_per_sample: float
    tokens_per_s: float
    peak_gib: float | None


Way = Callable[[], Iterator[int]]
"""Starts to sample a batch; yields the network calls so far after each step."""

_WARM_UP = 40
"""Steps before timing starts: they compile and record."""


@torch.no_grad()
def straightforward(
    network: Network, process: Process, x: Tensor, grid: Tensor, generator: torch.Generator
) -> Iterator[Tensor]:
    """The usual implementation: the network at every step, float64 Gumbel noise over every position and V+1 outcomes.

    Same distribution as our ancestral sampler, drawn the expensive way.
    """
    joint = torch.empty(*x.shape, process.vocab_size + 1, dtype=torch.float64, device=x.device)
    for t, s in pairwise(grid.tolist()):
        chance = (t - s) / t
        logits = network(x, torch.full((len(x),), t, device=x.device))
        joint[..., :-1] = logits.log_softmax(-1, dtype=torch.float32)
        joint[..., :-1] += math.log(chance)
        joint[..., -1] = math.log1p(-chance) if chance < 1 else -math.inf
        u = torch.rand(joint.shape, dtype=torch.float64, device=x.device, generator=generator)
        drawn = joint.sub_(u.log_().neg_().log_()).argmax(-1)
        x = torch.where(x == process.mask_id, drawn, x)
        yield x


def measure(
    network: Network, shape: tuple[int, ...], samples: int, steps: int, ways: dict[str, tuple[str, dict[str, Any]]],
    device: torch.device, repeats: int = 3, plain: bool = True,
) -> list[SampleSpeed]:  # fmt: skip
    """Time every way on the same network: our samplers by name with options, and the straightforward one."""
    process, grid = Process(Linear(), network.vocab_size), uniform_grid(steps)
    x = torch.full((samples, *shape), process.mask_id, device=device)
    halves = Replayed(network)

    def ours(name: str, options: dict[str, Any]) -> Iterator[int]:
        predict = Predictor(network, process.mask_id, halves=halves)
        for frame in trajectory(predict, process, x, grid, Streams(0, samples, device=device), name, **options):
            yield frame.calls

    def theirs() -> Iterator[int]:
        generator = torch.Generator(device).manual_seed(0)
        for step, _ in enumerate(straightforward(network, process, x, grid, generator)):
            yield (step + 1) * samples

    with mixed(device):
        rows = [_timed(way, partial(ours, name, options), x, repeats) for way, (name, options) in ways.items()]
        return [*rows, _timed("straightforward", theirs, x, 1)] if plain else rows


def _timed(way: str, begin: Way, x: Tensor, repeats: int) -> SampleSpeed:
    cuda = on_gpu(x.device)
    for _ in zip(begin(), range(_WARM_UP), strict=False):
        pass
    if cuda:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    seconds, calls = [], 0
    for _ in range(repeats):
        start = time.perf_counter()
        calls = deque(begin(), maxlen=1)[0]
        if cuda:
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    peak = torch.cuda.max_memory_allocated() / 2**30 if cuda else None
    middle = statistics.median(seconds)
    return SampleSpeed(way, middle, len(x), calls / len(x), x.numel() / middle, peak)
