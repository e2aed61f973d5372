"""`unmask compress` and `unmask decompress`."""

import json
import lzma
import time
from pathlib import Path
from typing import Any

from rich.console import Console

from unmask.files import check_files, written_whole
from unmask.mistakes import fail, require
from unmask.run import load
from unmask.run.compression import Compressed, compress, decompress

from .progress import bar

ENDING = ".unmask"


def run_compress(name: str, file: Path, out: Path | None, steps: int, as_json: bool) -> int:
    """Compress, and say how small it is, beside what the best of the usual ways makes of it."""
    out = file.with_name(file.name + ENDING) if out is None else out
    check_files(out)
    content, start = file.read_bytes(), time.perf_counter()
    with bar(Console(stderr=True, quiet=as_json), "compressing") as show:
        made = compress(load(name), name, content, steps=steps, progress=show)
    small = made.to_bytes()
    _write(out, small)
    done = {
        "file": str(out),
        "bytes": len(content),
        "compressed": len(small),
        "header": len(small) - len(made.code),
        "bits_per_byte": 8 * len(small) / len(content),
        "xz": len(lzma.compress(content, preset=9 | lzma.PRESET_EXTREME)),
        "steps": steps,
        "seconds": round(time.perf_counter() - start, 1),
    }
    _say(
        done,
        f"{file}: {len(content):,} bytes, {len(small):,} in {out} ({done['bits_per_byte']:.3f} bits per byte; "
        f"xz {done['xz']:,}); unmask decompress {out}",
        as_json,
    )
    return 0


def run_decompress(file: Path, out: Path | None, name: str | None, as_json: bool) -> int:
    """Decompress, and say what it was."""
    out = _original(file) if out is None else out
    check_files(out)
    given, start = Compressed.from_bytes(file.read_bytes()), time.perf_counter()
    with bar(Console(stderr=True, quiet=as_json), "decompressing") as show:
        content = decompress(load(name or given.header.model), given, show)
    _write(out, content)
    done = {"file": str(out), "bytes": len(content), "seconds": round(time.perf_counter() - start, 1)}
    _say(done, f"{out}: {len(content):,} bytes, the same as before", as_json)
    return 0


def _original(file: Path) -> Path:
    """The name before compression, if it is free."""
    do = "name one with --out"
    require(file.suffix == ENDING, f"{file} does not say its name before", got=file.suffix, allowed=ENDING, do=do)
    out = file.with_suffix("")
    if out.exists():
        fail(f"{out} is there already", got="a file", allowed="a new one", do="name another with --out")
    return out


def _write(path: Path, content: bytes) -> None:
    with written_whole(path) as file:
        file.write(content)


def _say(document: dict[str, Any], line: str, as_json: bool) -> None:
    if as_json:
        print(json.dumps(document, ensure_ascii=False))
    else:
        Console().print(line, highlight=False, markup=False, soft_wrap=True)
