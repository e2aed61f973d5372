"""Vocabularies: symbols ↔ token ids 0..V−1. The mask is not part of a vocabulary; its id is V.

A vocabulary is stored as one JSON document beside the prepared data and inside every model. `eos_id`, where
there is one, ends a document in packed data and fills the padding of shorter rows.
"""

import codecs
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
from numpy.typing import NDArray

from ..files import atomic_write, read_json, read_text
from ..mistakes import fail, first_line

Content = str | bytes | NDArray[Any]
"""One document: text, raw bytes (of text), or integers of any shape."""
Ids = NDArray[np.unsignedinteger[Any]]

EOS = "<|endoftext|>"
BROKEN = "\N{REPLACEMENT CHARACTER}"
"""Replaces bytes in a text that are not a character."""
_NEAR = 4
"""Number of preceding ids that decide what an id adds to a text."""


class Vocabulary(ABC):
    """Encodes content as ids, and decodes ids to readable text."""

    size: int
    """V, the number of real tokens (the end of text included where there is one)."""
    eos_id: int | None = None

    @abstractmethod
    def encode(self, content: Content) -> Ids:
        """The ids of a document, in the smallest unsigned type that holds them."""

    @abstractmethod
    def decode(self, ids: Sequence[int] | NDArray[Any]) -> str:
        """Readable text for ids; the end-of-text token decodes to nothing."""

    def spelt(self, ids: Sequence[int] | NDArray[Any]) -> bytes:
        """The UTF-8 bytes that ids stand for. Ids that stand for bytes may begin or end within a character."""
        return self.decode(ids).encode()

    def pieces(self, ids: Sequence[int] | NDArray[Any]) -> list[str]:
        """What each id adds to the whole text; a character made of several ids goes to the last of them.

        Joined, the pieces always equal the result of `decode`.
        """
        flat = np.asarray(ids).ravel().tolist()
        found = []
        for end in range(1, len(flat) + 1):
            near = flat[max(0, end - 1 - _NEAR) : end]
            before, after = self.decode(near[:-1]).rstrip(BROKEN), self.decode(near)
            found.append((after if end == len(flat) else after.rstrip(BROKEN)).removeprefix(before))
        whole = self.decode(flat)
        return found if "".join(found) == whole else [""] * (len(flat) - 1) + [whole]

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Everything needed to rebuild the vocabulary."""

    @property
    def fill_id(self) -> int:
        """Fills shorter rows after their end: the end of text, or an arbitrary id if there is none."""
        return self.eos_id or 0

    @property
    def dtype(self) -> np.dtype[Any]:
        """The smallest unsigned type that holds every id."""
        return np.min_scalar_type(self.size - 1)

    def save(self, path: Path) -> None:
        """Write the JSON document, completely or not at all."""
        with atomic_write(path, "w") as file:
            file.write(json.dumps(self.to_json(), ensure_ascii=False) + "\n")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self.to_json() == other.to_json()

    def __hash__(self) -> int:
        return hash(json.dumps(self.to_json(), sort_keys=True))


class Characters(Vocabulary):
    """One id per character of an alphabet, in the alphabet's order; the end of text last."""

    def __init__(self, symbols: str, eos: bool = False):
        doubled = sorted({s for s in symbols if symbols.count(s) > 1})
        if doubled or not symbols:
            fail(
                "the alphabet is not a set of characters",
                got=f"{symbols!r}" + (f" with {''.join(doubled)!r} repeated" if doubled else ""),
                allowed="at least one character, each once",
                do="list every symbol once",
            )
        self.symbols = symbols
        self.size = len(symbols) + eos
        self.eos_id = len(symbols) if eos else None
        self._ids = np.full(max(map(ord, symbols)) + 2, -1, dtype=np.int64)  # the last entry: beyond the table
        self._ids[[ord(s) for s in symbols]] = np.arange(len(symbols))

    @classmethod
    def of(cls, texts: Iterable[str], eos: bool = False) -> "Characters":
        """The alphabet of some texts, sorted."""
        return cls("".join(sorted(set().union(*texts))), eos)

    def encode(self, content: Content) -> Ids:
        text = as_text(content)
        codes = np.frombuffer(text.encode("utf-32-le"), dtype=np.uint32).astype(np.int64)
        ids = self._ids[np.minimum(codes, len(self._ids) - 1)]
        if (ids < 0).any():
            place = int(np.argmax(ids < 0))
            fail(
                f"the character {text[place]!r} is not in the vocabulary",
                got=f"it at position {place} of {shortened(text[max(0, place - 20) :])!r}",
                allowed=f"the {len(self.symbols)} characters {shortened(self.symbols)!r}",
                do="clean the text, or prepare the data with characters from all of it, bytes or bpe",
            )
        return ids.astype(self.dtype)

    def decode(self, ids: Sequence[int] | NDArray[Any]) -> str:
        return "".join(self.pieces(ids))

    def pieces(self, ids: Sequence[int] | NDArray[Any]) -> list[str]:
        return ["" if i == self.eos_id else self.symbols[i] for i in np.asarray(ids).ravel().tolist()]

    def to_json(self) -> dict[str, Any]:
        return {"kind": "characters", "symbols": self.symbols, "eos": self.eos_id is not None}

    def __repr__(self) -> str:
        return f"{len(self.symbols)} characters" + (" and end of text" if self.eos_id is not None else "")


class Bytes(Vocabulary):
    """The 256 byte values of UTF-8 text (or of anything); the end of text is 256."""

    def __init__(self, eos: bool = False):
        self.size = 256 + eos
        self.eos_id = 256 if eos else None

    def encode(self, content: Content) -> Ids:
        data = content if isinstance(content, bytes) else as_text(content).encode("utf-8")
        return np.frombuffer(data, dtype=np.uint8).astype(self.dtype)

    def decode(self, ids: Sequence[int] | NDArray[Any]) -> str:
        return self.spelt(ids).decode("utf-8", errors="replace")

    def spelt(self, ids: Sequence[int] | NDArray[Any]) -> bytes:
        flat = np.asarray(ids).ravel()
        return flat[flat < 256].astype(np.uint8).tobytes()

    def pieces(self, ids: Sequence[int] | NDArray[Any]) -> list[str]:
        return _in_turn(bytes([i]) if i < 256 else b"" for i in np.asarray(ids).ravel().tolist())

    def to_json(self) -> dict[str, Any]:
        return {"kind": "bytes", "eos": self.eos_id is not None}

    def __repr__(self) -> str:
        return "bytes" + (" and end of text" if self.eos_id is not None else "")


MOST_VALUES = 1 << 24
"""The largest vocabulary of integers."""


class Integers(Vocabulary):
    """Values 0, 1, … as they are: pixels (256 values), notes, anything that is already an integer; the end last."""

    def __init__(self, values: int, eos: bool = False):
        if values < 1:
            fail("the vocabulary is empty", got=values, allowed="a size >= 1", do="pass the number of values")
        if values > MOST_VALUES:
            allowed = f"at most {MOST_VALUES:,} values"
            fail("the vocabulary is too large", got=f"{values:,}", allowed=allowed, do="map the values to 0, 1, 2, …")
        self.values = values
        self.size = values + eos
        self.eos_id = values if eos else None

    def encode(self, content: Content) -> Ids:
        if isinstance(content, str | bytes):
            content = _numbers(as_text(content))
        if not np.issubdtype(content.dtype, np.integer):
            fail("the values are not integers", got=content.dtype, allowed="an integer array", do="convert it first")
        if content.size and not (content.min() >= 0 and content.max() < self.values):
            least = int(content.min())
            larger = int(content.max()), "use values within it, or prepare the data with a larger size"
            got, do = (least, "shift the values") if least < 0 else larger
            fail("a value is outside the vocabulary", got=got, allowed=f"0..{self.values - 1}", do=do)
        return content.astype(self.dtype)

    def decode(self, ids: Sequence[int] | NDArray[Any]) -> str:
        return " ".join(str(i) for i in np.asarray(ids).ravel().tolist() if i != self.eos_id)

    def to_json(self) -> dict[str, Any]:
        return {"kind": "integers", "size": self.values} | ({} if self.eos_id is None else {"eos": True})

    def __repr__(self) -> str:
        return f"integers 0..{self.values - 1}" + ("" if self.eos_id is None else " and end of text")


def _numbers(text: str) -> NDArray[np.int64]:
    """The numbers in a text as `Integers` writes it: 3 4 5."""
    words = text.split()
    strange = next((word for word in words if not (word.isascii() and word.isdigit() and len(word) < 19)), None)
    if strange is not None:
        got, do = repr(shortened(strange)), "write numbers, or prepare text with characters, bytes or bpe"
        fail("a vocabulary of integers cannot encode text", got=got, allowed="numbers separated by spaces", do=do)
    return np.array(words, dtype=np.int64)


class Subwords(Vocabulary):
    """A Hugging Face tokenizer: GPT-2's BPE, any tokenizer.json, or one trained on the data."""

    _EOS_NAMES = (EOS, "</s>", "<eos>", "<|im_end|>", "[SEP]")

    def __init__(self, document: str):
        """`document` is the text of a tokenizer.json."""
        self._document = document
        try:
            self._tokenizer = tokenizers.Tokenizer.from_str(document)
        except Exception as error:  # the library raises nothing more precise
            allowed, do = "the text of a tokenizer.json", "check the file"
            fail("this is not a tokenizer", got=first_line(error), allowed=allowed, do=do)
        self._tokenizer.no_truncation()  # a file may ask for either: tokens would be lost, or added
        self._tokenizer.no_padding()
        self.size = self._tokenizer.get_vocab_size(with_added_tokens=True)
        found = (self._tokenizer.token_to_id(name) for name in self._EOS_NAMES)
        self.eos_id = next((i for i in found if i is not None), None)

    @classmethod
    def load(cls, path: Path) -> "Subwords":
        """Load a tokenizer.json, or a folder with one, or with vocabulary and merges in GPT-2's format."""
        if path.is_file():
            return cls(read_text(path))
        if (path / "tokenizer.json").exists():
            return cls(read_text(path / "tokenizer.json"))
        for vocabulary, merges in (("encoder.json", "vocab.bpe"), ("vocab.json", "merges.txt")):
            if (path / vocabulary).exists() and (path / merges).exists():
                return cls._byte_level(path / vocabulary, path / merges)
        fail(
            "no tokenizer found",
            got=path,
            allowed="tokenizer.json, encoder.json + vocab.bpe, or vocab.json + merges.txt",
            do="check the folder",
        )

    @classmethod
    def _byte_level(cls, vocabulary: Path, merges: Path) -> "Subwords":
        try:
            tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE.from_file(str(vocabulary), str(merges)))
        except Exception as error:  # the library raises nothing more precise
            files, do = f"{vocabulary.name} and {merges.name}", f"check them in {vocabulary.parent}"
            fail(f"{files} are not a tokenizer", got=first_line(error), allowed="GPT-2's format", do=do)
        tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = tokenizers.decoders.ByteLevel()
        return cls(tokenizer.to_str())

    @classmethod
    def pretrained(cls, name: str) -> "Subwords":
        """Fetch a tokenizer from the Hugging Face hub, for example "gpt2"."""
        try:
            return cls(tokenizers.Tokenizer.from_pretrained(name).to_str())
        except Exception as error:  # the hub client raises many kinds, all meaning "not there or no network"
            fail(
                f"the tokenizer {name!r} could not be fetched",
                got=first_line(error),
                allowed="a tokenizer on the hub",
                do="check the name and the network, or pass a folder with its files",
            )

    @classmethod
    def train(cls, texts: Iterable[str], size: int) -> "Subwords":
        """A byte-level BPE of `size` tokens (end of text included) learned from texts."""
        if size < 257:
            fail("the BPE is too small", got=size, allowed="a size >= 257 (256 bytes and end of text)", do="use bytes")
        tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
        tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = tokenizers.decoders.ByteLevel()
        trainer = tokenizers.trainers.BpeTrainer(
            vocab_size=size,
            special_tokens=[EOS],
            initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        tokenizer.train_from_iterator(texts, trainer)
        return cls(tokenizer.to_str())

    def encode(self, content: Content) -> Ids:
        """Encode without the tokenizer's offsets, which would take most of the time and memory."""
        found = self._tokenizer.encode_batch_fast([as_text(content)], add_special_tokens=False)[0]
        return np.array(found.ids, dtype=self.dtype)

    def decode(self, ids: Sequence[int] | NDArray[Any]) -> str:
        return str(self._tokenizer.decode(np.asarray(ids).ravel().tolist(), skip_special_tokens=True))

    def spelt(self, ids: Sequence[int] | NDArray[Any]) -> bytes:
        """The bytes of each token if the tokenizer is byte-level, else those of the decoded text."""
        if self._bytes is None:
            return super().spelt(ids)
        return b"".join(self._bytes.get(i, b"") for i in np.asarray(ids).ravel().tolist())

    def pieces(self, ids: Sequence[int] | NDArray[Any]) -> list[str]:
        if self._bytes is None:
            return super().pieces(ids)
        return _in_turn(self._bytes.get(i, b"") for i in np.asarray(ids).ravel().tolist())

    @cached_property
    def _bytes(self) -> dict[int, bytes] | None:
        """The bytes of each token, without special ones; None if the tokenizer is not byte-level."""
        if (json.loads(self._document).get("decoder") or {}).get("type") != "ByteLevel":
            return None
        added, known = self._tokenizer.get_added_tokens_decoder(), self._tokenizer.get_vocab(with_added_tokens=True)
        return {i: _bytes_of(token) for token, i in known.items() if i not in added or not added[i].special}

    def to_json(self) -> dict[str, Any]:
        return {"kind": "subwords", "tokenizer": json.loads(self._document)}

    def __repr__(self) -> str:
        return f"{self.size:,} subwords"

    def __reduce__(self) -> Any:
        return Subwords, (self._document,)


def _in_turn(parts: Iterable[bytes]) -> list[str]:
    """The text that each part of some UTF-8 completes; what remains incomplete goes to the last."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    found = [decoder.decode(part) for part in parts]
    return [*found[:-1], found[-1] + decoder.decode(b"", final=True)] if found else []


def _bytes_by_character() -> dict[str, int]:
    """How GPT-2 writes bytes as characters: printable ones as themselves, the others from 256 on."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in plain]
    return {chr(byte): byte for byte in plain} | {chr(256 + n): byte for n, byte in enumerate(others)}


_BYTE_LEVEL = _bytes_by_character()


def _bytes_of(token: str) -> bytes:
    """The bytes of a byte-level token; a token that was added verbatim stands for itself."""
    if all(c in _BYTE_LEVEL for c in token):
        return bytes(_BYTE_LEVEL[c] for c in token)
    return token.encode()


def from_json(document: dict[str, Any]) -> Vocabulary:
    """Build a vocabulary from what `to_json` returned."""
    kinds: dict[str, Callable[[dict[str, Any]], Vocabulary]] = {
        "characters": lambda d: Characters(d["symbols"], d["eos"]),
        "bytes": lambda d: Bytes(d["eos"]),
        "integers": lambda d: Integers(d["size"], d.get("eos", False)),
        "subwords": lambda d: Subwords(json.dumps(d["tokenizer"])),
    }
    kind = document.get("kind", "")
    if kind not in kinds:
        fail("unknown kind of vocabulary", got=kind, allowed=", ".join(kinds), do="update unmask, or check the file")
    return kinds[kind](document)


def load(path: Path) -> Vocabulary:
    """Read a vocabulary.json, which is self-contained."""
    document = read_json(path)
    try:
        return from_json(document)
    except (AttributeError, KeyError, TypeError) as error:
        fail(f"{path} is damaged", got=repr(error), allowed="an unmask vocabulary", do="get the file again")


def as_text(content: Content, place: str = "") -> str:
    """The text of a document; bytes must be UTF-8. place: the file it comes from, if known."""
    if isinstance(content, str):
        return content
    if isinstance(content, bytes):
        try:
            return content.decode("utf-8")
        except UnicodeDecodeError as error:
            fail(
                f"{place or 'the text'} is not UTF-8",
                got=f"byte 0x{content[error.start]:02x} after {shortened(content[: error.start].decode()[-20:])!r}",
                allowed="UTF-8",
                do="convert the file (iconv -t UTF-8), or use the vocabulary bytes",
            )
    what, got = "a vocabulary of text cannot encode numbers", f"an array of {content.dtype}"
    fail(what, got=got, allowed="text", do="use integers")


def shortened(text: str, length: int = 40) -> str:
    """At most `length` characters of a text."""
    return text if len(text) <= length else text[:length] + "…"
