"""Convert four-part music to text and back: one letter per note, sixteenth by sixteenth, the voices in turn.

    python recipes/chorales.py lines jsb-chorales-16th.json FOLDER    train.txt, valid.txt, test.txt; a window per line
    python recipes/chorales.py soprano FOLDER/test.txt 2              the first two windows, all but the soprano hidden
    python recipes/chorales.py midi FILE                              FILE-1.mid, FILE-2.mid, …: one per line

The JSON has lists of pieces under train, valid and test. A piece is a list of sixteenths, each a list of up to four
MIDI pitches, soprano first. Letter A is pitch 36 and t is 81; a dot is a rest.
"""

import json
import lzma
import sys
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from string import ascii_letters

from unmask.mistakes import fail, require

LETTERS = (ascii_letters[26:] + ascii_letters[:26])[:46]
LOWEST, REST, VOICES = 36, ".", 4
SIXTEENTHS, HOP = 64, 16
"""Sixteenths in a window (four bars of four beats), and between the starts of training windows (one bar)."""
TICKS = 120
"""Ticks per sixteenth in the MIDI file, at 480 per beat."""

Piece = list[list[int]]
"""A list of sixteenths with four pitches each; −1 is a rest."""


# ------------------------------------------------------------------------------------------- notes as text


def read(path: Path) -> dict[str, list[Piece]]:
    """The pieces of each split; where fewer than four voices sound, the lower ones rest."""
    try:
        raw = json.loads((lzma.open if path.suffix == ".xz" else open)(path, "rb").read())
        return {
            split: [[[*map(int, notes), *[-1] * (VOICES - len(notes))] for notes in piece] for piece in raw[split]]
            for split in ("train", "valid", "test")
        }
    except (ValueError, KeyError, TypeError) as error:
        fail(
            f"{path} does not contain chorales",
            got=repr(error),
            allowed="the JSON that chorales.py describes",
            do="check the file",
        )


def letter(pitch: int) -> str:
    """The letter of a note, or the dot of a rest."""
    inside = LOWEST <= pitch < LOWEST + len(LETTERS)
    require(pitch < 0 or inside, "a note is out of range", got=pitch, allowed="36..81", do="transpose the piece")
    return REST if pitch < 0 else LETTERS[pitch - LOWEST]


def line(window: Piece) -> str:
    """The letters of a window, four for each sixteenth."""
    return "".join(letter(pitch) for notes in window for pitch in notes)


def windows(piece: Piece, hop: int) -> Iterator[Piece]:
    """Whole windows at every hop, and the remainder at the end of the piece."""
    for start in range(0, len(piece), hop):
        if start % SIXTEENTHS == 0 or start + SIXTEENTHS <= len(piece):
            yield piece[start : start + SIXTEENTHS]


def transposed(piece: Piece, ranges: Sequence[tuple[int, int]]) -> Iterator[Piece]:
    """The piece in every key in which each voice stays within its range."""
    sung = [[notes[voice] for notes in piece if notes[voice] >= 0] for voice in range(VOICES)]
    room = [(low - min(notes), high - max(notes)) for notes, (low, high) in zip(sung, ranges, strict=True) if notes]
    down, up = max((low for low, _ in room), default=0), min((high for _, high in room), default=0)
    for shift in range(max(down, -6), min(up, 5) + 1):
        yield [[pitch + shift if pitch >= 0 else pitch for pitch in notes] for notes in piece]


def write_lines(path: Path, folder: Path) -> None:
    """Write a file for each split: training pieces in all keys, the others as written, each note once."""
    splits = read(path)
    notes = [[n[voice] for piece in splits["train"] for n in piece if n[voice] >= 0] for voice in range(VOICES)]
    ranges = [(min(voice), max(voice)) for voice in notes]
    train = [window for p in splits["train"] for t in transposed(p, ranges) for window in windows(t, HOP)]
    held_out = {name: [w for piece in splits[name] for w in windows(piece, SIXTEENTHS)] for name in ("valid", "test")}
    folder.mkdir(parents=True, exist_ok=True)
    for name, found in {"train": train, **held_out}.items():
        (folder / f"{name}.txt").write_text("\n".join(map(line, found)) + "\n")
        print(f"{folder / name}.txt: {len(found):,} windows of {len(splits[name])} pieces")


def soprano(text: str) -> str:
    """A prompt for `unmask infill`: the first of every four letters, with the other three hidden."""
    return "".join(f"{first}___" for first in text[::VOICES])


# ---------------------------------------------------------------------------------------------------- MIDI


def variable(number: int) -> bytes:
    """A number in MIDI's variable-length form: seven bits per byte, the highest first, all but the last marked."""
    found = [number & 127]
    while number := number >> 7:
        found.append(number & 127 | 128)
    return bytes(reversed(found))


def chunk(kind: bytes, data: bytes) -> bytes:
    """A MIDI chunk: kind, length, data."""
    return kind + len(data).to_bytes(4, "big") + data


def track(letters: str, channel: int) -> bytes:
    """One voice. Equal neighbours are held as one note: the grid does not say where a note is repeated."""
    events, waited = b"", 0
    for symbol, run in groupby(letters):
        ticks = TICKS * len(list(run))
        if symbol == REST:
            waited += ticks
            continue
        pitch = LOWEST + LETTERS.index(symbol)
        events += variable(waited) + bytes([0x90 | channel, pitch, 72])
        events += variable(ticks) + bytes([0x80 | channel, pitch, 0])
        waited = 0
    return chunk(b"MTrk", events + b"\x00\xff\x2f\x00")


def midi(text: str) -> bytes:
    """A MIDI file of four tracks at 120 beats per minute; an incomplete last sixteenth is left out."""
    strange = sorted(set(text) - set(LETTERS + REST))
    require(
        not strange, "this is not music", got="".join(strange), allowed=f"{LETTERS} and {REST}", do="check the file"
    )
    whole = text[: len(text) // VOICES * VOICES]
    head = b"".join(n.to_bytes(2, "big") for n in (1, VOICES, 4 * TICKS))
    return chunk(b"MThd", head) + b"".join(track(whole[voice::VOICES], voice) for voice in range(VOICES))


# ------------------------------------------------------------------------------------------------ commands


def texts(path: str) -> list[str]:
    """The non-empty lines of a file."""
    return Path(path).read_text().split()


def write_midi(path: str) -> None:
    """Write one MIDI file for each line."""
    for number, text in enumerate(texts(path), start=1):
        out = Path(path).with_suffix("").with_name(f"{Path(path).stem}-{number}.mid")
        out.write_bytes(midi(text))
        print(f"wrote {out}")


COMMANDS = {
    "lines": lambda path, folder: write_lines(Path(path), Path(folder)),
    "soprano": lambda path, count="1": print("\n".join(map(soprano, texts(path)[: int(count)]))),
    "midi": write_midi,
}

if __name__ == "__main__":
    try:
        COMMANDS[sys.argv[1]](*sys.argv[2:])
    except (IndexError, KeyError, TypeError):
        sys.exit(__doc__)
    except (OSError, ValueError) as mistake:
        print(mistake, file=sys.stderr)
        sys.exit(2)
