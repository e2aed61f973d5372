"""Choosing a vocabulary for a source: by name, by file, or from the data itself."""

from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from ..mistakes import fail, require
from .sources import Part, Source
from .vocabulary import Bytes, Characters, Integers, Subwords, Vocabulary, as_text
from .vocabulary import load as load_vocabulary

MANY = 512
"""Text with more distinct characters than this is better served by bytes or BPE."""
BPE_SAMPLE = 256 << 20
"""Maximum number of characters to train a BPE on, spread evenly over the source."""
ALLOWED = (
    "characters, alphabet:SYMBOLS, bytes, pixels, integers:SIZE, gpt2, bpe:SIZE, a tokenizer.json, a vocabulary.json, "
    "or a model"
)


def choose_vocabulary(name: str | None, source: Source, rows: bool, workers: int = 1) -> Vocabulary:
    """The requested vocabulary; None chooses by the content.

    It includes an end of text where documents are packed one after another, or rows differ in length.
    """
    eos = source.values is None and not source.one_document
    kind, _, argument = (name or _natural(source)).partition(":")
    if name is None and kind == "characters" and not rows:
        symbols = alphabet(source, workers)
        return Characters(symbols, eos) if len(symbols) <= MANY else Bytes(eos)
    with_argument: dict[str, Callable[[str], Vocabulary]] = {
        "alphabet": lambda symbols: Characters(symbols, eos),
        "integers": lambda size: Integers(_number(size), eos),
        "bpe": lambda size: Subwords.train(_sample(source), _number(size)),
    }
    alone: dict[str, Callable[[], Vocabulary]] = {
        "characters": lambda: Characters(alphabet(source, workers), eos),
        "bytes": lambda: Bytes(eos),
        "pixels": lambda: Integers(256),
        "gpt2": lambda: Subwords.pretrained("gpt2"),
    }
    if kind in with_argument:
        return with_argument[kind](argument)
    if kind in alone:
        require(not argument, f"the vocabulary {kind} takes no argument", got=name, allowed=ALLOWED, do=f"use {kind}")
        return alone[kind]()
    path = Path(name or kind)
    if not path.exists():
        fail("unknown vocabulary", got=name, allowed=ALLOWED, do="choose one of them")
    return load_vocabulary(path) if path.name == "vocabulary.json" else Subwords.load(path)


def _natural(source: Source) -> str:
    return "characters" if source.values is None else f"integers:{source.values}"


def _number(text: str) -> int:
    if not text.isdigit():
        fail("the vocabulary needs a size", got=repr(text), allowed="a whole number, as in bpe:8192", do="add it")
    return int(text)


def alphabet(source: Source, workers: int) -> str:
    """All characters of a source, sorted: one pass over it, in parallel."""
    parts = list(source.parts)
    if workers <= 1 or len(parts) <= 1:
        found = set().union(*map(_characters, parts))
    else:
        with ProcessPoolExecutor(min(workers, len(parts)), mp_context=get_context("spawn")) as pool:
            found = set().union(*pool.map(_characters, parts))
    if not found:
        fail("the source holds no tokens", got="no text", allowed="at least one character", do="check the source")
    return "".join(sorted(found))


def _characters(part: Part) -> set[str]:
    found: set[str] = set()
    for piece in part.pieces():
        found.update(as_text(piece.content, piece.place))
    return found


def _sample(source: Source) -> Iterator[str]:
    parts = [part for part in source.parts if part.split in (None, "train")]
    share = max(1, BPE_SAMPLE // max(1, len(parts)))
    for part in parts:
        taken = 0
        for piece in part.pieces():
            text = as_text(piece.content, piece.place)
            yield from _short(text)
            taken += len(text)
            if taken >= share:
                break


def _short(text: str, length: int = 1 << 14) -> Iterator[str]:
    """A text in short pieces, cut at spaces: the trainer holds hundreds of them at once."""
    start = 0
    while len(text) - start > length:
        cut = text.rfind(" ", start + 1, start + length)
        stop = cut if cut > 0 else start + length
        yield text[start:stop]
        start = stop
    yield text[start:]
