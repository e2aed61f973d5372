"""The processes of a run (`torchrun`): the rank of this process, and how the work is divided.

ddp   every rank holds the whole model, gradients are averaged during the backward pass (DistributedDataParallel)
fsdp  every rank holds a shard of every tensor, gathered part by part when needed (FSDP2, `fully_shard`)

A single process needs neither.
"""

import gc
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.distributed_c10d import PrefixStore, rendezvous  # type: ignore[attr-defined]
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.nn.parallel import DistributedDataParallel

from ..core.device import on_gpu
from ..mistakes import fail, require
from .method import Method

_T = TypeVar("_T")


@dataclass(frozen=True)
class World:
    """The position of this process among all processes of the run."""

    rank: int = 0
    size: int = 1
    local: int = 0
    """Its rank on its machine, which is also the index of its GPU."""

    @property
    def first(self) -> bool:
        """Whether this is the rank that writes files and prints."""
        return self.rank == 0

    def all_reduce(self, values: Tensor) -> Tensor:
        """Sum over all ranks, in place."""
        if self.size > 1:
            dist.all_reduce(values)
        return values

    def all_gather(self, values: Tensor) -> Tensor:
        """The values [n] of all ranks as [n, ranks]."""
        if self.size == 1:
            return values[:, None]
        parts = [torch.empty_like(values) for _ in range(self.size)]
        dist.all_gather(parts, values.contiguous())
        return torch.stack(parts, 1)

    def barrier(self) -> None:
        """Wait until all ranks have reached this point."""
        if self.size > 1:
            dist.barrier()

    def broadcast(self, thing: Any) -> Any:
        """The object that the first rank passed, on every rank."""
        if self.size == 1:
            return thing
        box = [thing]
        dist.broadcast_object_list(box)
        return box[0]

    @contextmanager
    def first_only(self) -> Iterator[bool]:
        """A block whose work only the first rank does (it receives True); an error there is raised on all ranks."""
        wrong: Exception | None = None
        try:
            yield self.first
        except (OSError, ValueError) as error:
            if self.size == 1:
                raise
            wrong = error
        said = self.broadcast(str(wrong) if wrong else None)
        if wrong is not None or said is not None:
            raise wrong or OSError(said)

    def from_first(self, make: Callable[[], _T]) -> _T:
        """What the first rank makes, on every rank; an error there is raised on all ranks."""
        with self.first_only() as first:
            found = make() if first else None
        return self.broadcast(found)  # type: ignore[no-any-return]


ALONE = World()


def from_environment() -> World:
    """The world described by torchrun's environment variables; without them, a single process."""
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK")
    rank, size, local = (int(os.environ.get(name, default)) for name, default in zip(names, "010", strict=True))
    return World(rank, size, local)


@contextmanager
def joined(device: torch.device) -> Iterator[World]:
    """Initialise communication between the ranks for the duration of the block.

    After a restart by torchrun the store still holds the addresses of the ranks before, so every attempt has its own
    part. Agents of several machines count attempts differently: there, torchrun must make a new store for each
    (TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1).
    """
    world = from_environment()
    if world.size == 1:
        yield world
        return
    if on_gpu(device):
        torch.cuda.set_device(world.local)
    store, rank, size = next(rendezvous("env://"))
    one_agent = os.environ.get("GROUP_WORLD_SIZE", "1") == "1"
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") if one_agent else "any"
    own = PrefixStore(f"attempt {attempt}", store)
    dist.init_process_group("nccl" if on_gpu(device) else "gloo", store=own, rank=rank, world_size=size)
    try:
        yield world
    finally:
        gc.collect()  # objects that still reference the group would deadlock with its destruction
        dist.destroy_process_group()


class Strategy:
    """How the work is divided; this base class runs a single process."""

    def __init__(self, method: Method, world: World, device: torch.device, mixed: bool):
        del world, device, mixed
        self.module: Callable[..., Any] = method

    def accumulating(self, last: bool) -> AbstractContextManager[None]:
        """Wraps the backward pass of a micro-batch; gradients are synchronised between ranks only in the last one."""
        del last
        return nullcontext()

    def unsharded(self) -> AbstractContextManager[None]:
        """Within the block, parts of the network can be called directly, not only through the method."""
        return nullcontext()


class Ddp(Strategy):
    """Every rank holds the whole model (DistributedDataParallel)."""

    def __init__(self, method: Method, world: World, device: torch.device, mixed: bool):
        del mixed
        place = [world.local] if on_gpu(device) else None
        self.module = self._wrapped = DistributedDataParallel(method, place, gradient_as_bucket_view=True)

    @contextmanager
    def accumulating(self, last: bool) -> Iterator[None]:
        with nullcontext() if last else self._wrapped.no_sync():
            yield


class Fsdp(Strategy):
    """Every rank holds a shard of every tensor; blocks are gathered in bf16 if they compute in bf16."""

    def __init__(self, method: Method, world: World, device: torch.device, mixed: bool):
        mesh = init_device_mesh(device.type, (world.size,))
        policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32) if mixed else MixedPrecisionPolicy()
        for part in method.network.parts():
            fully_shard(part, mesh=mesh, mp_policy=policy)
        self._sharded: FSDPModule = fully_shard(method, mesh=mesh)
        self.module = method

    @contextmanager
    def accumulating(self, last: bool) -> Iterator[None]:
        self._sharded.set_requires_gradient_sync(last)
        yield

    @contextmanager
    def unsharded(self) -> Iterator[None]:
        self._sharded.unshard()
        try:
            yield
        finally:
            self._sharded.reshard()


STRATEGIES: dict[str, type[Strategy]] = {"ddp": Ddp, "fsdp": Fsdp}


def choose(parallel: str | None, world: World) -> type[Strategy]:
    """The strategy of this name; None selects DDP if there are several ranks."""
    if parallel is None:
        return Ddp if world.size > 1 else Strategy
    if parallel not in STRATEGIES:
        fail("unknown strategy", got=parallel, allowed=", ".join(STRATEGIES), do="choose one of them")
    require(
        world.size > 1,
        f"{parallel} needs several ranks",
        got="one process",
        allowed="several processes under torchrun",
        do="run torchrun --nproc-per-node 2 -m unmask train …, or omit --parallel",
    )
    return STRATEGIES[parallel]


def full_tensors(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Full tensors assembled from their shards on all ranks; every rank must call this."""
    return {name: t.full_tensor() if isinstance(t, DTensor) else t for name, t in tensors.items()}


@torch.no_grad()
def copy_into(targets: dict[str, Tensor], values: dict[str, Tensor]) -> None:
    """Copy full tensors into targets, of which this rank may hold only a shard."""
    for name, target in targets.items():
        value = values[name].to(target.device)
        if isinstance(target, DTensor):
            value = distribute_tensor(value, target.device_mesh, target.placements)
        target.copy_(value)


def scalar(value: Tensor) -> Tensor:
    """A scalar, gathered if it is distributed over ranks."""
    return value.full_tensor() if isinstance(value, DTensor) else value


def parameters(module: nn.Module) -> dict[str, Tensor]:
    """The parameters by name, as held by this rank (possibly sharded)."""
    return {name: p.detach() for name, p in module.named_parameters()}
