"""Zero-shot protocols from the literature: how a set is turned back into text, and how it is cut into sequences.

A perplexity is meaningful only together with its protocol. Three are known by name:

sedd    every row ends with the end of text; rows are joined and cut into blocks, a thousand rows at a time, and the
        remainder of each thousand is dropped (Lou et al., 2024)
mdlm    as sedd, but each block is enclosed in ends of text, which cost a model almost nothing (Sahoo et al.)
md4     rows are joined with the end of text between them and cut once; only the last piece is dropped
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from ..mistakes import fail, require

Ids = NDArray[np.int64]


@dataclass(frozen=True)
class Protocol:
    """How rows of tokens become sequences."""

    rows_together: int | None
    """Number of rows that are joined and cut at a time; None: all."""
    wrapped: bool = False
    """Whether each sequence begins and ends with the end of text."""

    def sequences(self, rows: Iterable[Ids], length: int, eos: int) -> Ids:
        """Cut rows into sequences of `length` tokens [S, length]."""
        inner = length - 2 if self.wrapped else length
        require(inner >= 1, "the sequences are too short", got=length, allowed=">= 3", do="use the model's length")
        blocks = [_blocks(group, inner, eos) for group in _grouped(rows, self.rows_together)]
        found = np.concatenate(blocks) if blocks else np.zeros((0, inner), dtype=np.int64)
        if not self.wrapped:
            return found
        end = np.full((len(found), 1), eos)
        return np.concatenate([end, found, end], axis=1)


PROTOCOLS = {"sedd": Protocol(1000), "mdlm": Protocol(1000, wrapped=True), "md4": Protocol(None)}


def find_protocol(name: str) -> Protocol:
    """The protocol with this name."""
    if name not in PROTOCOLS:
        fail("unknown protocol", got=name, allowed=", ".join(PROTOCOLS), do="choose one of them")
    return PROTOCOLS[name]


def _grouped(rows: Iterable[Ids], size: int | None) -> Iterator[list[Ids]]:
    iterator = iter(rows)
    while group := list(islice(iterator, size)):
        yield group


def _blocks(rows: list[Ids], length: int, eos: int) -> Ids:
    stream = np.concatenate([np.append(row, eos) for row in rows]).astype(np.int64)
    count = len(stream) // length
    return stream[: count * length].reshape(count, length)


# -------------------------------------------------------------------------------- back to plain text


Step = tuple[re.Pattern[str], str]


def _rules(*pairs: tuple[str, str]) -> tuple[Step, ...]:
    return tuple((re.compile(pattern), put) for pattern, put in pairs)


def _applied(steps: tuple[Step, ...]) -> Callable[[str], str]:
    def detokenise(text: str) -> str:
        for pattern, put in steps:
            text = pattern.sub(put, text)
        return text

    return detokenise


_WIKITEXT = _rules(
    (r"s '", "s'"),  # the plural's possessive
    (r" @-@ ", "-"),
    (r" @,@ ", ","),
    (r" @\.@ ", "."),
    (r" : ", ": "),
    (r" ; ", "; "),
    (r" \. ", ". "),
    (r" ! ", "! "),
    (r" \? ", "? "),
    (r" , ", ", "),
    (r"\(\s*([^\)]*?)\s*\)", r"(\1)"),
    (r"\[\s*([^\]]*?)\s*\]", r"[\1]"),
    (r"{\s*([^}]*?)\s*}", r"{\1}"),
    (r'"\s*([^"]*?)\s*"', r'"\1"'),
    (r"'\s*([^']*?)\s*'", r"'\1'"),
    (r"= = = =", "===="),
    (r"= = =", "==="),
    (r"= =", "=="),
    (r" " + chr(176) + " ", chr(176)),
    (r" \n", "\n"),
    (r"\n ", "\n"),
    (r" N ", " 1 "),
    (r" 's", "'s"),
)
_PTB = _rules(
    (r" 's", "'s"),
    (r"s ' ", "s' "),
    (r" n't", "n't"),
    (r" \n ", "\n"),
    (r"\\/", "/"),
    (r" N(?= )", " 1"),
    (r"\$ 1", "$1"),
    (r"# 1", "#1"),
    (r"<unk>", "?"),
)
_LM1B = _rules(
    (r"http : / / ", "http://"),
    (r"https : / / ", "https://"),
    (r" '(\w+)", r"'\1"),
    (r" (\w+) \. ", r" \1. "),
    (r" (\w+) \.$", r" \1."),
    (r" \? ", "? "),
    (r" \?$", "?"),
    (r" ! ", "! "),
    (r" !$", "!"),
    (r" , ", ", "),
    (r" : ", ": "),
    (r" ; ", "; "),
    (r" / ", "/"),
    (r'" ([^"]+) "', r'"\1"'),
    (r"' ([^']+) '", r"'\1'"),
    (r"\( ([^\(\)]+) \)", r"(\1)"),
    (r"\[ ([^\[\]]+) \]", r"[\1]"),
    (r"\$ ", "$"),
    (r"£ ", "£"),
)
_LAMBADA = _rules(("“", '"'), ("”", '"'), ("\\A\\s*", "\n"), ("\\s*\\Z", ""))

DETOKENISERS: dict[str, Callable[[str], str]] = {
    "none": lambda text: text,
    "wikitext": _applied(_WIKITEXT),
    "ptb": _applied(_PTB),
    "lm1b": _applied(_LM1B),
    "lambada": _applied(_LAMBADA),
    "papers": _applied(_WIKITEXT + _LM1B),
}
"""From the sets' own spacing to plain text, by the rules used for published results."""


def find_detokeniser(name: str) -> Callable[[str], str]:
    """The detokeniser with this name."""
    if name not in DETOKENISERS:
        fail("unknown detokeniser", got=name, allowed=", ".join(DETOKENISERS), do="choose one of them")
    return DETOKENISERS[name]
