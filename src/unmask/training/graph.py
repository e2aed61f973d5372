"""A loss and its gradients as one CUDA graph: the host then launches one graph per step, not thousands of kernels."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

_PLAIN = 3
"""Eager calls before the recording: they check the data, compile, and select kernels."""

Inputs = Sequence[Tensor | None]


class Recorded:
    """A function from tensors of constant shape to a scalar, recorded together with its backward pass.

    Calls return the function's result, differentiable in the parameters; once there is a recording, they replay it.
    Inputs are copied to the tensors that the recording reads.

    accumulates: whether gradients are summed over several calls; if not, they stay where the recording wrote them,
    which saves copying all of them.
    """

    def __init__(self, function: Callable[..., Tensor], parameters: Sequence[Tensor], accumulates: bool):
        self.accumulates = accumulates
        self._function, self._parameters = function, [p for p in parameters if p.requires_grad]
        self._calls = 0
        self._stream: torch.cuda.Stream | None = None
        self._graph: torch.cuda.CUDAGraph | None = None
        self._inputs: list[Tensor | None] = []
        self._loss = torch.empty(0)
        self._gradients: list[Tensor | None] = []

    def __call__(self, *inputs: Tensor | None) -> Tensor:
        self._calls += 1
        if self._calls <= _PLAIN:
            return self._plain(*inputs)
        if self._graph is None:
            self._graph = self._record(inputs)
        if not _alike(inputs, self._inputs):
            return self._function(*inputs)
        for place, value in zip(self._inputs, inputs, strict=True):
            if place is not None and value is not None:
                place.copy_(value)
        total: Tensor = _Replay.apply(self, *self._parameters)  # type: ignore[no-untyped-call]
        return total

    def _plain(self, *inputs: Tensor | None) -> Tensor:
        """Run on the stream that will be recorded: the gradients of parameters belong to the stream of their first use,
        for as long as a graph from that time exists, and a recording must not wait for another stream.
        """
        if not any(p.is_cuda for p in self._parameters):
            return self._function(*inputs)
        self._stream = self._stream or torch.cuda.Stream()  # type: ignore[no-untyped-call]
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            loss = self._function(*inputs)
        torch.cuda.current_stream().wait_stream(self._stream)
        return loss

    def _record(self, inputs: Inputs) -> torch.cuda.CUDAGraph:
        self._inputs = [None if x is None else x.clone() for x in inputs]
        graph = torch.cuda.CUDAGraph()
        torch.clear_autocast_cache()  # weights are converted within the recording, not before
        # record only this thread's calls: another thread is reading the next batch
        with torch.cuda.graph(graph, stream=self._stream, capture_error_mode="thread_local"):
            loss = self._function(*self._inputs)
            gradients = torch.autograd.grad(loss, self._parameters, allow_unused=True)
        torch.clear_autocast_cache()
        self._loss, self._gradients = loss.detach(), list(gradients)
        return graph

    def replay(self) -> tuple[Tensor, list[Tensor | None]]:
        """The loss and the gradients of the parameters for the current inputs."""
        self._graph.replay()  # type: ignore[union-attr]  # only called with a recording
        return self._loss.clone(), self._gradients


class _Replay(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, recorded: Recorded, *parameters: Tensor) -> Tensor:
        del parameters
        loss, ctx.gradients = recorded.replay()
        ctx.accumulates = recorded.accumulates
        return loss

    @staticmethod
    def backward(ctx: Any, factor: Tensor) -> tuple[Tensor | None, ...]:
        known = [g for g in ctx.gradients if g is not None]
        factor = factor.to(known[0].dtype)
        if not ctx.accumulates:
            torch._foreach_mul_(known, factor)  # returned as new tensors, or autograd would copy them
            return None, *(None if g is None else g.detach() for g in ctx.gradients)
        scaled = iter(torch._foreach_mul(known, factor))
        return None, *(None if g is None else next(scaled) for g in ctx.gradients)


def _alike(inputs: Inputs, others: Inputs) -> bool:
    def form(x: Tensor | None) -> Any:
        return None if x is None else (x.shape, x.dtype)

    return [form(x) for x in inputs] == [form(x) for x in others]
