"""How fast sampling is, beside a straightforward implementation of the same law."""

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from ..core import Linear, Process, Streams, uniform_grid
from ..networks import Network
from ..sampling import Predictor, sample


@dataclass(frozen=True)
class SampleSpeed:
    """One way to sample."""

    way: str
    seconds: float
    """Of a whole batch, the median of several."""
    samples: int
    calls_per_sample: float
    tokens_per_s: float
    peak_gib: float | None


@torch.no_grad()
def straightforward(
    network: Network, process: Process, x: Tensor, grid: Tensor, generator: torch.Generator
) -> tuple[Tensor, float]:
    """What people write: the network at every step, float64 Gumbel noise over every position and V+1 outcomes.

    The law of our ancestral sampler, drawn the expensive way; calls per sample.
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
    return x, float(len(grid) - 1)


def measure(
    network: Network, shape: tuple[int, ...], samples: int, steps: int, ways: dict[str, tuple[str, dict[str, object]]],
    device: torch.device, repeats: int = 3, plain: bool = True,
) -> list[SampleSpeed]:  # fmt: skip
    """Every way on the same network: ours by name with their options, and the straightforward one."""
    process, grid = Process(Linear(), network.vocab_size), uniform_grid(steps)
    x = torch.full((samples, *shape), process.mask_id, device=device)
    kind = torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda")

    def ours(name: str, options: dict[str, object]) -> float:
        predict = Predictor(network, process.mask_id)
        with kind:
            return sample(predict, process, x, grid, Streams(0, samples, device=device), name, **options).calls

    def theirs() -> float:
        with kind:
            return straightforward(network, process, x, grid, torch.Generator(device).manual_seed(0))[1]

    rows = [
        _timed(way, lambda name=name, options=options: ours(name, options), x, repeats)  # type: ignore[misc]
        for way, (name, options) in ways.items()
    ]
    return [*rows, _timed("straightforward", theirs, x, 1)] if plain else rows


def _timed(way: str, run: Callable[[], float], x: Tensor, repeats: int) -> SampleSpeed:
    cuda = x.device.type == "cuda"
    if cuda:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    seconds, calls = [], 0.0
    for repeat in range(repeats + (repeats > 1)):  # the first of several warms up
        start = time.perf_counter()
        calls = run()
        if cuda:
            torch.cuda.synchronize()
        if repeat or repeats == 1:
            seconds.append(time.perf_counter() - start)
    peak = torch.cuda.max_memory_allocated() / 2**30 if cuda else None
    middle = statistics.median(seconds)
    return SampleSpeed(way, middle, len(x), calls, x.numel() / middle, peak)
