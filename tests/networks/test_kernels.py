"""The kernels compute what the plain formulas say, forward and backward.

Where there is no GPU they run in Triton's interpreter, on the CPU; on a GPU, as compiled, in float32 and bf16.
"""

import dataclasses

import pytest
import torch
import torch.nn.functional as F

pytest.importorskip("triton")

from unmask.core import Streams, philox_kernel
from unmask.networks import TransformerConfig, UNetConfig, fused
from unmask.training import MD4Config

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
PRECISIONS = {torch.float32: 1e-5, torch.bfloat16: 5e-3}


@pytest.fixture(params=PRECISIONS, ids=["float32", "bf16"])
def dtype(request):
    return request.param


def numbers(*shape, seed=0, dtype=torch.float32):
    """Of mean 1 and deviation 1, the same on every device."""
    generator = torch.Generator().manual_seed(seed)
    return (1 + torch.randn(*shape, generator=generator)).to(DEVICE, dtype)


def largest_error(kernel, plain, inputs):
    """Of results and gradients of a kernel, against a plain function of float64 copies; relative, by norms."""
    ours = [None if x is None else x.requires_grad_() for x in inputs]
    theirs = [None if x is None else x.detach().double().requires_grad_() for x in inputs]
    found, expected = kernel(*ours), plain(*theirs)
    found, expected = ([y] if torch.is_tensor(y) else list(y) for y in (found, expected))
    upstream = [numbers(*y.shape, seed=9, dtype=y.dtype) for y in found]
    known = [[x for x in xs if x is not None] for xs in (ours, theirs)]
    gradients = torch.autograd.grad(found, known[0], upstream)
    wanted = torch.autograd.grad(expected, known[1], [u.double() for u in upstream])
    pairs = zip([*found, *gradients], [*expected, *wanted], strict=True)
    return max(((a.double() - b).norm() / b.norm()).item() for a, b in pairs)


def test_rms_norm(dtype):
    def plain(x):
        return F.rms_norm(x, x.shape[-1:], eps=1e-6)

    assert largest_error(fused._RmsNorm.apply, plain, [numbers(3, 7, 24, dtype=dtype)]) <= PRECISIONS[dtype]


@pytest.mark.parametrize(("heads", "width"), [(5, 6), (2, 64)])
def test_norm_rotate(heads, width, dtype):
    angle = numbers(10, 1, width // 2, seed=3)
    cos, sin = angle.cos(), angle.sin()

    def plain(qkv, scales):
        q, k, v = qkv.unbind(2)
        norms = (F.rms_norm(x, (width,), s, eps=1e-6) for x, s in zip((q, k), scales, strict=True))
        return [*(fused.rotate(x, cos.double(), sin.double()) for x in norms), v]

    inputs = [numbers(3, 10, 3, heads, width, dtype=dtype), numbers(2, width, seed=1)]
    assert largest_error(lambda *x: fused._NormRotate.apply(*x, cos, sin), plain, inputs) <= PRECISIONS[dtype]


@pytest.mark.parametrize("joined", [False, True], ids=["alone", "joined"])
@pytest.mark.parametrize("shifted", [False, True], ids=["", "shifted"])
@pytest.mark.parametrize("pixels", [(5, 7), (40, 30)], ids=["small", "in tiles"])
def test_norm_silu(joined, shifted, pixels, dtype):
    width = 64 if joined else 32
    keep = (numbers(2, width, seed=4) > 0.5).float()

    def plain(x, left, shift, weight, bias):
        both = x if left is None else torch.cat([x, left], dim=-1)
        both = both if shift is None else both + shift[:, None, None]
        normed = F.group_norm(both.permute(0, 3, 1, 2), 8, weight, bias, 1e-5).permute(0, 2, 3, 1)
        return F.silu(normed) * keep.double()[:, None, None]

    inputs = [
        numbers(2, *pixels, 32, dtype=dtype),
        numbers(2, *pixels, 32, seed=1, dtype=dtype) if joined else None,
        numbers(2, width, seed=2) if shifted else None,
        numbers(width, seed=5),
        numbers(width, seed=6),
    ]
    assert largest_error(lambda *x: fused._NormSilu.apply(*x, keep, 8, 1e-5), plain, inputs) <= PRECISIONS[dtype]


def test_squared_relu_mlp():
    """In the precision of the machine that runs it: bf16 on a GPU, float32 in the interpreter, which has no other."""
    dtype = torch.bfloat16 if DEVICE == "cuda" else torch.float32

    def plain(x, into, out):
        return F.linear(F.relu(F.linear(x, into)).square(), out)

    inputs = [numbers(2, 70, 24, dtype=dtype), *(0.1 * numbers(*s, dtype=dtype) for s in ((304, 24), (24, 304)))]
    assert largest_error(fused._SquaredReluMlp.apply, plain, [x.detach() for x in inputs]) <= 2 * PRECISIONS[dtype]


@pytest.mark.parametrize("seed", [0, 123456789012, 2**64 - 3])
@pytest.mark.parametrize("step", [0, 4_000_000_000])
@pytest.mark.parametrize("count", [0, 1, 5, 1000])
def test_streams_are_the_same_bits(seed, step, count):
    samples = torch.tensor([0, 5, 2**32 - 1])
    streams = Streams(seed, samples, step)
    for call in range(2):
        found = philox_kernel.uniform(samples.to(DEVICE), call, step, seed, count)
        assert torch.equal(found.cpu(), streams.uniform(count))


NETWORKS = {
    "transformer": (TransformerConfig(11, 2, 2, 16, mlp="relu2", dropout=0.1), (24,)),
    "unet": (UNetConfig(11, 3, 1, 16, 4, dropout=0.1), (4, 4, 3)),
}


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_learns_the_same_with_them(name, compiled, monkeypatch):
    """Loss and gradients of a whole network, with the kernels inside and without, also within a compiled graph."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)  # convolutions would round to 10 bits
    config, shape = NETWORKS[name]
    found = []
    for use in (False, True):
        monkeypatch.setattr(fused, "has_kernel", lambda x, use=use: use and x.device.type != "meta")
        torch.manual_seed(0)
        network = dataclasses.replace(config).build()
        with torch.no_grad():
            for parameter in network.parameters():
                parameter.add_(0.05 * torch.randn_like(parameter))
        method = MD4Config().build(network.to(DEVICE))
        if compiled and use:
            torch._dynamo.reset()
            method.compile_parts(backend="aot_eager")
        x_0 = (Streams(7, 6, device=DEVICE).uniform(*shape) * 11).long()
        loss = method(x_0, Streams(0, 6, device=DEVICE))
        loss.backward()
        found.append([loss.detach(), *(p.grad for p in method.parameters() if p.grad is not None)])
    errors = [((b - a).norm() / a.norm()).item() for a, b in zip(*found, strict=True)]
    assert max(errors) <= 1e-3, errors
