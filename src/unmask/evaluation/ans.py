"""Entropy coding of symbols with known probabilities: asymmetric numeral systems (Duda, 2013), range variant.

An integer s holds everything that was written. A symbol has f of 2^K slots, from slot c on. To write it,

    s ← ⌊s / f⌋·2^K + c + s mod f,

which adds K − log2 f bits to s: the symbol's information, up to rounding. To read it, find the symbol whose slots
contain s mod 2^K and reverse the step, s ← f·⌊s / 2^K⌋ + s mod 2^K − c. What was written last is read first, as from a
stack. When s would exceed 96 bits, its lower 32 bits are set aside, and they come back when it falls below 65 bits.
That is so much more than K that rounding costs about 2^−34 bits per symbol.
"""

from ..mistakes import fail

BITS = 30
"""K: no symbol has a probability below 2^−30, so with a vocabulary of 50,000 a token costs 0.00007 bits more."""
SLOTS = 1 << BITS
_LEAST, _WORD, _STATE = 1 << 64, 32, 12


class Stack:
    """Symbols that were written and not read yet."""

    def __init__(self) -> None:
        self._state = _LEAST
        self._words: list[int] = []

    @property
    def slot(self) -> int:
        """The slot that identifies the next symbol to read."""
        return self._state & (SLOTS - 1)

    @property
    def empty(self) -> bool:
        """Whether nothing is left. Of bytes that no writer produced, only one in 2^64 ends like this."""
        return self._state == _LEAST and not self._words

    def push(self, start: int, count: int) -> None:
        """Write the symbol that has the slots from `start` on, `count` of them."""
        if self._state >= count * (_LEAST >> BITS) << _WORD:
            self._words.append(self._state & ((1 << _WORD) - 1))
            self._state >>= _WORD
        whole, rest = divmod(self._state, count)
        self._state = (whole << BITS) + start + rest

    def pop(self, start: int, count: int) -> None:
        """Read the symbol that has the current slot."""
        self._state = count * (self._state >> BITS) + self.slot - start
        if self._state < _LEAST:
            if not self._words:
                raise EOFError("the code ends too soon")
            self._state = self._state << _WORD | self._words.pop()

    def to_bytes(self) -> bytes:
        """Words of 32 bits, the state last."""
        return b"".join(word.to_bytes(4, "little") for word in self._words) + self._state.to_bytes(_STATE, "little")

    @classmethod
    def from_bytes(cls, code: bytes) -> "Stack":
        """Rebuild a stack from what `to_bytes` returned."""
        found = cls()
        found._words = [int.from_bytes(code[i : i + 4], "little") for i in range(0, len(code) - _STATE, 4)]
        found._state = int.from_bytes(code[-_STATE:], "little")
        if len(code) % 4 or found._state < _LEAST:
            do = "get it again"
            fail("the code is damaged", got=f"{len(code)} bytes", allowed="words of 32 bits and a state", do=do)
        return found
