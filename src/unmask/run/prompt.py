"""Text with gaps to fill: `____` or `[MASK:5]`.

A run of three or more underscores stands for that many characters or bytes, or for one subword per four underscores;
`[MASK:5]` stands for exactly five tokens.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..data.vocabulary import Subwords, Vocabulary, shortened
from ..mistakes import fail

_GAP = re.compile(r"_{3,}|\[MASK:(\d+)\]")
_MISSPELT = re.compile(r"\[\s*MASK\s*[:=]?\s*-?\d*\s*\]|\[\s*MASK\s*[:=]\s*-?\d+", re.IGNORECASE)
_PER_SUBWORD = 4
_MOST = 1 << 20
"""Maximum number of tokens in all gaps."""
_DIGITS = 19
"""Longer numbers are too large in any case, and Python may refuse to parse them."""


@dataclass(frozen=True)
class Prompt:
    """Tokens, and which of them are to be filled in."""

    tokens: NDArray[np.int64]
    """[N]; arbitrary in gaps."""
    gap: NDArray[np.bool_]

    def masked(self, mask_id: int) -> NDArray[np.int64]:
        """The tokens with the mask in the gaps."""
        return np.where(self.gap, mask_id, self.tokens)


def has_gap(text: str) -> bool:
    """Whether there is something to fill."""
    return _GAP.search(text) is not None


def parse(text: str, vocabulary: Vocabulary, most: int = _MOST) -> Prompt:
    """Parse a prompt with at most `most` tokens in its gaps."""
    tokens: list[NDArray[np.int64]] = []
    gaps: list[NDArray[np.bool_]] = []

    def add(values: NDArray[np.int64], gap: bool) -> None:
        tokens.append(values)
        gaps.append(np.full(len(values), gap))

    place = filled = 0
    for found in _GAP.finditer(text):
        add(_encoded(text, place, found.start(), vocabulary, before_gap=True), gap=False)
        size = _size(found, vocabulary)
        filled += size
        if filled > most:
            got, allowed = shortened(found[0]), f"at most {most} tokens in all gaps"
            fail("a gap is too large", got=got, allowed=allowed, do="ask for fewer")
        add(np.zeros(size, dtype=np.int64), gap=True)
        place = found.end()
    if not tokens and not _MISSPELT.search(text):
        fail(
            "the prompt has no gap",
            got=repr(shortened(text)),
            allowed="____ for one gap, or [MASK:5] for five tokens",
            do="mark what should be filled in",
        )
    add(_encoded(text, place, len(text), vocabulary, before_gap=False), gap=False)
    return Prompt(np.concatenate(tokens), np.concatenate(gaps))


def around(before: str | Sequence[int], count: int, after: str, vocabulary: Vocabulary) -> Prompt:
    """A gap of `count` tokens between two texts, wherever these end; a final space that belongs to the gap is dropped.

    before: may also be tokens, which are kept unchanged.
    """
    if isinstance(before, str):
        first = _read(before[:-1] if ends_in_space(before, vocabulary) else before, vocabulary)
    else:
        first = np.array(before, dtype=np.int64)
    tokens = np.concatenate([first, np.zeros(count, dtype=np.int64), _read(after, vocabulary)])
    gap = np.zeros(len(tokens), dtype=bool)
    gap[len(first) : len(first) + count] = True
    return Prompt(tokens, gap)


def ends_in_space(text: str, vocabulary: Vocabulary) -> bool:
    """Whether the final space of a text belongs to what follows: a subword begins with its own space."""
    return isinstance(vocabulary, Subwords) and text.endswith(" ")


def _read(text: str, vocabulary: Vocabulary) -> NDArray[np.int64]:
    return vocabulary.encode(text).astype(np.int64) if text else np.zeros(0, dtype=np.int64)


def _size(found: re.Match[str], vocabulary: Vocabulary) -> int:
    if found[1] is not None:
        count = int(found[1][:_DIGITS])
        if count < 1:
            fail("a gap is empty", got=found[0], allowed="[MASK:1] or more", do="ask for at least one token")
        return count
    underscores = len(found[0])
    return -(-underscores // _PER_SUBWORD) if isinstance(vocabulary, Subwords) else underscores


def _encoded(text: str, start: int, end: int, vocabulary: Vocabulary, *, before_gap: bool) -> NDArray[np.int64]:
    piece = text[start:end]
    if wrong := _MISSPELT.search(piece):
        fail("a gap is misspelt", got=shortened(wrong[0]), allowed="____ or [MASK:5]", do="write it so")
    if isinstance(vocabulary, Subwords):
        _check_borders(text, start, end, vocabulary)
    return _read(piece[:-1] if before_gap and ends_in_space(piece, vocabulary) else piece, vocabulary)


def _check_borders(text: str, start: int, end: int, vocabulary: Subwords) -> None:
    """A gap within a word cannot be filled well: the subwords around it are not those of the whole word."""
    for place, side in ((end, text[end - 1 : end]), (start, text[start : start + 1])):
        inside = 0 < place < len(text) and side.isalnum()
        if inside and (place == end) == bool(_GAP.match(text, place)):
            shown = " | ".join(vocabulary.decode([i]) for i in vocabulary.encode(text[start:end]).tolist()[-6:])
            fail(
                "a gap begins or ends within a word",
                got=f"{shortened(text[max(0, place - 12) : place + 12])!r}, where the text is read as {shown}",
                allowed="gaps between words, since a word's subwords depend on all of it",
                do="put the whole word into the gap",
            )
