"""Source files: compressed or not, read in pieces, fetched once."""

import bz2
import gzip
import hashlib
import json
import lzma
import urllib.request
import zipfile
import zlib
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from ..files import atomic_write, digest, fail_undecoded
from ..mistakes import extra, fail, first_line


def _open_zip(path: Path, mode: str) -> IO[bytes]:
    """The only file of an archive."""
    del mode
    archive = zipfile.ZipFile(path)
    names = [name for name in archive.namelist() if not name.endswith("/")]
    if len(names) != 1:
        do = "unpack it and pass the folder"
        fail(f"{path} does not hold one file", got=f"{len(names)} files", allowed="one", do=do)
    return archive.open(names[0])


_OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open, ".zip": _open_zip}
BLOCK = 1 << 20
"""Bytes read at once."""
_SEARCH = 1 << 16
"""Bytes searched at once for a place to cut."""
_OVERLAP = 4
"""Bytes that two searches share: what is looked for may lie across their border."""

Cut = Callable[[bytes | bytearray], int]
"""Where in these bytes a new piece may start; −1 if nowhere."""


def is_compressed(path: Path) -> bool:
    """Whether a file is compressed, by its suffix: such a file cannot be read from the middle."""
    return path.suffix in _OPENERS


def suffix(path: Path) -> str:
    """The suffix that tells what is in the file, ignoring compression."""
    return Path(path.stem).suffix.lower() if is_compressed(path) else path.suffix.lower()


@contextmanager
def readable(path: Path) -> Iterator[IO[bytes]]:
    """Open a file, decompressing by its suffix; the error for a damaged one names it."""
    with naming_damage(path), _OPENERS.get(path.suffix, open)(path, "rb") as file:
        yield file


@contextmanager
def naming_damage(path: Path) -> Iterator[None]:
    """While a compressed file is read: name it if its data is truncated or invalid."""
    try:
        yield
    except (EOFError, lzma.LZMAError, zlib.error, zipfile.BadZipFile, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # of the system: clear by itself
            raise
        fail(f"{path} is damaged", got=error, allowed=f"a whole {path.suffix} file", do="get it again")


def text_lines(path: Path) -> Iterator[str]:
    """The lines of a text; the error for one that is not UTF-8 names the file."""
    try:
        with readable(path) as file:
            for number, line in enumerate(file):
                yield (line if number else line.removeprefix(BOM_UTF8)).decode()
    except UnicodeDecodeError as error:
        fail_undecoded(path, error)


def json_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """(number of the line, object on it) for every line that is not empty."""
    for number, line in enumerate(text_lines(path), start=1):
        if line.strip():
            yield number, json_object(line, path, number)


def json_object(line: str | bytes, path: Path, number: int = 0) -> dict[str, Any]:
    """The object on a line of a file; the number is only needed for an error, which looks for it if it is 0."""
    why = ""
    try:
        record = json.loads(line)
        if isinstance(record, dict):
            return record
    except UnicodeDecodeError as error:
        fail_undecoded(path, error)
    except json.JSONDecodeError as error:
        why = f" ({error.msg} at character {error.pos + 1})"
    except (ValueError, RecursionError) as error:  # a number that is too long, or nested too deeply
        why = f" ({first_line(error)})"
    text = line if isinstance(line, str) else line.decode(errors="replace")
    place = f"line {number or _number_of(text, path)} of {path}"
    fail(f"{place} is not a JSON object{why}", got=text.strip()[:60], allowed="one object per line", do="correct it")


def _number_of(text: str, path: Path) -> int | str:
    """Which line of a file this is, which may end in any way."""
    with readable(path) as file:
        lines = file.read().removeprefix(BOM_UTF8).splitlines()
    found = (number for number, line in enumerate(lines, start=1) if line.strip() == text.strip().encode())
    return next(found, "?")


def parquet(path: Path) -> Any:
    """An open Parquet file."""
    library = extra("pyarrow.parquet", "parquet", "a Parquet file")
    try:
        return library.ParquetFile(path)
    except ValueError as error:
        fail(f"{path} is not a Parquet file", got=error, allowed="a Parquet file", do="name another file or --kind")


def after_newline(data: bytes | bytearray) -> int:
    """A new line starts a piece."""
    return data.find(b"\n") + 1 or -1


def before_record(data: bytes | bytearray) -> int:
    """A FASTA header starts a piece."""
    return data.find(b"\n>") + 1 or -1


def after_space(data: bytes | bytearray) -> int:
    """A piece of running text starts after white space; without any, at the next whole UTF-8 character."""
    places = [p for p in (data.find(b"\n"), data.find(b" ")) if p >= 0]
    if places:
        return min(places) + 1
    return next((i for i in range(1, min(5, len(data))) if data[i] & 0xC0 != 0x80), -1)


def glimpse(path: Path, blocks: int = 16, block: int = 1 << 16) -> bytes:
    """A digest of a file's size and of blocks spread evenly over it: the whole content up to 1 MiB, little of a large
    file. It detects a change that keeps the size, unless the change lies between the blocks.
    """
    size = path.stat().st_size
    seen = hashlib.blake2b(str(size).encode(), digest_size=8)
    with path.open("rb") as file:
        for start in sorted({max(0, size - block) * i // (blocks - 1) for i in range(blocks)}):
            file.seek(start)
            seen.update(file.read(block))
    return seen.digest()


def ranges(path: Path, size: int) -> list[tuple[int, int]]:
    """Byte ranges of about `size` that cover a file; a compressed file is one range, its end unknown (−1)."""
    if is_compressed(path):
        return [(0, -1)]
    total = path.stat().st_size
    return [(start, min(start + size, total)) for start in range(0, total, size)] or [(0, 0)]


def read_range(
    path: Path, start: int, stop: int, cut: Cut, within: tuple[int, int | None] = (0, None)
) -> Iterator[bytes]:
    """The bytes between two cuts, in blocks that end at cuts.

    Each range begins at the first cut after `start` (the very beginning for 0) and ends at the first cut after
    `stop`, so that neighbouring ranges fit together whatever their nominal borders. stop −1 means to the end.
    Nothing outside `within` is read: its ends are cuts.
    """
    with readable(path) as file:
        low, high = within
        position = _next_cut(file, start, cut) if start > low else low
        end = -1 if stop < 0 else _next_cut(file, stop, cut)
        end = end if high is None else min(end, high)
        file.seek(position)
        if position == 0 and file.read(len(BOM_UTF8)) == BOM_UTF8:  # a byte-order mark, not part of the text
            position = len(BOM_UTF8)
        file.seek(position)
        rest, searched = bytearray(), 0
        while end < 0 or position < end:
            block = file.read(BLOCK if end < 0 else min(BLOCK, end - position))
            if not block:
                break
            position += len(block)
            rest += block
            place = _last_cut(rest, cut, searched)
            if place > 0:
                yield bytes(rest[:place])
                del rest[:place]
            searched = 0 if place > 0 else len(rest)
        if rest:
            yield bytes(rest)


def _next_cut(file: IO[bytes], position: int, cut: Cut) -> int:
    """The first cut after a position; the end of the file if there is none. Every byte is searched once."""
    file.seek(position)
    tail = b""
    while block := file.read(_SEARCH):
        window = tail + block
        if (place := cut(window)) > 0:
            return position - len(tail) + place
        position += len(block)
        tail = window[-_OVERLAP:]
    return position


def _last_cut(data: bytearray, cut: Cut, searched: int) -> int:
    """A cut near the end of a block: found in its last part, so that the rest stays small; −1 if there is none.

    The first `searched` bytes are known to have none.
    """
    first = max(0, searched - _OVERLAP)
    start = stop = len(data)
    while start > first:
        start = max(first, start - _SEARCH)
        if (place := cut(data[start:stop])) > 0:
            return start + place
        stop = start + _OVERLAP
    return -1


def fetch(url: str, path: Path, md5: str | None = None) -> Path:
    """Fetch a file once; check it even if it was already there."""
    if not path.exists():
        try:
            with urllib.request.urlopen(url, timeout=60) as answer, atomic_write(path) as file:  # noqa: S310
                while block := answer.read(BLOCK):
                    file.write(block)
        except OSError as error:
            fail(f"{url} could not be fetched", got=error, allowed="a connection", do=f"download it to {path} by hand")
    if md5 and (got := digest(path, "md5")) != md5:
        fail(f"{path} is damaged or a different file", got=f"md5 {got}", allowed=md5, do="delete it and try again")
    return path
