"""Compression of running text with a model, and decompression (`evaluation.codec`).

The file: an identifying line, the length of the header (4 bytes), the header (JSON), the code. The header names the
model and records how sums were computed: decompression needs the same ones to the last bit, which other processors,
numbers of threads or versions of torch do not guarantee. The result is compared with a digest of the original text, so
that a file is decompressed correctly or refused.
"""

import hashlib
import json
import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from typing import NoReturn

import torch
from torch import Tensor

from ..core import Streams
from ..core.device import on_gpu
from ..evaluation import Coder, Reader, Writer, passed, random_ranks
from ..mistakes import fail, require
from ..sampling import Predictor
from .model import Model
from .orders import require_any_order

STEPS = 32
"""Groups per window: about 1.5 % more bits than one token at a time, with a sixth of the network calls."""
_MAGIC = b"unmask code 1\n"
_ROWS, _ROWS_GPU = 16, 256
"""Windows per batch."""

_MOST = {"tokens": 1 << 40, "steps": 1 << 40, "rows": _ROWS_GPU, "threads": 1024}
"""The largest values that a header may hold."""

Progress = Callable[[int, int], None]
"""(tokens done, total)."""


@dataclass(frozen=True)
class Header:
    """What decompression needs to know."""

    model: str
    """The model, as it was named."""
    weights: str
    """Digest of the weights."""
    digest: str
    """Digest of the text."""
    tokens: int
    steps: int
    rows: int
    """Windows per batch: another shape may be summed in another order."""
    threads: int
    torch: str
    device: str

    def __post_init__(self) -> None:
        good = all(type(getattr(self, field.name)) is field.type for field in fields(self))
        good = good and all(1 <= getattr(self, name) <= most for name, most in _MOST.items())
        require(good, "the header is damaged", got=asdict(self), allowed="valid fields", do="get the file again")

    @property
    def place(self) -> str:
        """Where the sums were computed."""
        return f"torch {self.torch} on {self.device}"


@dataclass(frozen=True)
class Compressed:
    """A compressed text."""

    header: Header
    code: bytes

    def to_bytes(self) -> bytes:
        """The contents of the file."""
        header = json.dumps(asdict(self.header), ensure_ascii=False).encode()
        return _MAGIC + len(header).to_bytes(4, "little") + header + self.code

    @classmethod
    def from_bytes(cls, content: bytes) -> "Compressed":
        """Parse the contents of a file."""
        allowed, do = "a file made by unmask compress", "check the path, or get the file again"
        begins = f"bytes that begin with {content[:12]!r}"
        require(content.startswith(_MAGIC), "this is not a compressed text", got=begins, allowed=allowed, do=do)
        start = len(_MAGIC) + 4
        end = start + int.from_bytes(content[start - 4 : start], "little")
        damaged = f"{content[start:end][:40]!r}"
        try:
            document = json.loads(content[start:end])
        except (ValueError, RecursionError):
            fail("the header is damaged", got=damaged, allowed=allowed, do=do)
        try:
            return cls(Header(**document), content[end:])
        except TypeError:
            fail("the header is damaged", got=damaged, allowed=allowed, do=do)


def compress(
    model: Model, name: str, content: bytes, *, steps: int = STEPS, progress: Progress | None = None
) -> Compressed:
    """Compress a text; `name`: a name under which the model can be found again."""
    require(steps >= 1, "the number of steps is not positive", got=steps, allowed=">= 1", do=f"use {STEPS}")
    _check(model)
    ids = model.vocabulary.encode(content)
    require(len(ids) > 0, "there is nothing to compress", got="no text", allowed="some text", do="name another file")
    same = model.vocabulary.spelt(ids) == content
    allowed, do = "one that encodes and decodes it without loss", "use a model of bytes or byte-level subwords"
    require(same, "the vocabulary cannot represent this text", got=repr(model.vocabulary), allowed=allowed, do=do)
    rows = _ROWS_GPU if on_gpu(model.device) else _ROWS
    threads, made = torch.get_num_threads(), (str(torch.__version__), _machine(model.device))
    header = Header(name, _digest(model), _short(content), len(ids), steps, rows, threads, *made)
    writer = Writer()
    _through(model, header, torch.from_numpy(ids.astype("int64")), writer, progress)
    return Compressed(header, writer.code())


def decompress(model: Model, given: Compressed, progress: Progress | None = None) -> bytes:
    """Recover the text."""
    _check(model)
    header, reader = given.header, Reader(given.code)
    got, do = _digest(model), f"pass the model that was called {header.model!r} when compressing (--model)"
    require(got == header.weights, "this is a different model", got=repr(got), allowed=repr(header.weights), do=do)
    nothing = torch.zeros(1, dtype=torch.int64).expand(header.tokens)
    try:
        with _threads(header.threads):
            ids = _through(model, header, nothing, reader, progress)
    except EOFError:
        _fail_unlike(header, model)
    content = model.vocabulary.spelt(ids.numpy())
    if not reader.done or _short(content) != header.digest:
        _fail_unlike(header, model)
    return content


def _through(model: Model, header: Header, tokens: Tensor, coder: Coder, progress: Progress | None) -> Tensor:
    """Pass all windows of a text through a coder, batch by batch; the last one may be shorter."""
    predict = Predictor(model.network, model.process.mask_id, cache=False)
    shown = coder if progress is None else _shown(coder, header.tokens, progress)
    found = []
    for numbers, length in _windows(header.tokens, model.facts.shape[0], header.rows):
        first = numbers.start * model.facts.shape[0]
        x_0 = tokens[first : first + len(numbers) * length].reshape(len(numbers), length).to(model.device)
        streams = Streams(0, torch.tensor(numbers, device=model.device)).fork("compress")
        rank = random_ranks(streams, length, header.steps)
        found.append(passed(predict, model.process, x_0, rank, shown).flatten().cpu())
    return torch.cat(found)


def _windows(tokens: int, length: int, rows: int) -> Iterator[tuple[range, int]]:
    """The numbers of the windows in each batch, and their length."""
    whole, rest = divmod(tokens, length)
    for start in range(0, whole, rows):
        yield range(start, min(start + rows, whole)), length
    if rest:
        yield range(whole, whole + 1), rest


def _shown(coder: Coder, total: int, progress: Progress) -> Coder:
    done = 0

    def coded(begins: Tensor, tokens: Tensor) -> Tensor:
        nonlocal done
        done += len(tokens)
        progress(done, total)
        return coder(begins, tokens)

    return coded


def _check(model: Model) -> None:
    """Fail if the model cannot compress text."""
    require_any_order(model, do="use a masked diffusion model")
    one, got, do = not model.process.schedule.per_token, "one for each token (GenMD4)", "use another model"
    require(one, "this model cannot compress text", got=got, allowed="one schedule for all tokens", do=do)
    running, what = model.window is not None, "this model is not one of running text"
    require(running, what, got="rows or images", allowed="running text", do="use another model")


@contextmanager
def _threads(count: int) -> Iterator[None]:
    """Set the number of threads, which decides the order of summation."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _fail_unlike(header: Header, model: Model) -> NoReturn:
    what, here = "the text differs from what was compressed", f"torch {torch.__version__} on {_machine(model.device)}"
    if here == header.place:
        got = "a damaged file, or a processor that sums in another order"
        fail(
            what,
            got=got,
            allowed="the original file, where it was written",
            do="get it again, or decompress it there",
        )
    fail(what, got=here, allowed=f"{header.place!r}, where it was written", do="decompress it there")


def _digest(model: Model) -> str:
    """Digest of all that the model has learned."""
    found = hashlib.sha256()
    for name, value in sorted(model.method.state_dict().items()):
        found.update(name.encode())
        found.update(value.detach().contiguous().flatten().view(torch.uint8).cpu().numpy().tobytes())
    return found.hexdigest()[:16]


def _short(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def _machine(device: torch.device) -> str:
    if on_gpu(device):
        return torch.cuda.get_device_name(device)
    return f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}"
