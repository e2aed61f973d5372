"""`unmask compress` and `unmask decompress`."""

import lzma
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from rich.console import Console

from unmask.files import atomic_write, check_files
from unmask.mistakes import require
from unmask.run import load
from unmask.run.compression import Compressed, compress, decompress
from unmask.run.hub import PREFIX
from unmask.run.places import shipped

from .machine import print_json
from .progress import bar

ENDING = ".unmask"


def run_compress(name: str, file: Path, out: Path | None, steps: int, as_json: bool) -> int:
    """Compress, and report the size beside that of xz."""
    out = _free(Path(f"{file}{ENDING}")) if out is None else out
    check_files(out)
    _check_other(file, out)
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
        "steps": steps,
        "seconds": round(time.perf_counter() - start, 1),
        "xz": len(lzma.compress(content, preset=9 | lzma.PRESET_EXTREME)),
    }
    _say(
        done,
        f"{file}: {len(content):,} bytes, {len(small):,} in {out} ({done['bits_per_byte']:.3f} bits per byte; "
        f"xz {done['xz']:,}); unmask decompress {out}",
        as_json,
    )
    return 0


def run_decompress(file: Path, out: Path | None, name: str | None, as_json: bool) -> int:
    """Decompress, and report the size."""
    out = _original(file) if out is None else out
    check_files(out)
    _check_other(file, out)
    given, start = Compressed.from_bytes(file.read_bytes()), time.perf_counter()
    model = load(_here(given.header.model) if name is None else name)
    with bar(Console(stderr=True, quiet=as_json), "decompressing") as show:
        content = decompress(model, given, show)
    _write(out, content)
    done = {"file": str(out), "bytes": len(content), "seconds": round(time.perf_counter() - start, 1)}
    _say(done, f"{out}: {len(content):,} bytes, the same as before", as_json)
    return 0


def _original(file: Path) -> Path:
    """The name before compression, if no file has it."""
    got, do = file.suffix or "no ending", "name the output with --out"
    require(file.suffix == ENDING, f"{file} does not end in {ENDING}", got=got, allowed=ENDING, do=do)
    return _free(file.with_suffix(""))


def _free(out: Path) -> Path:
    """A default name; an existing file is not replaced."""
    there, do = out.exists(), "name it, or another file, with --out"
    require(not there, f"{out} already exists", got="a file", allowed="a new file", do=do)
    return out


def _check_other(file: Path, out: Path) -> None:
    """Do not overwrite the input: only the same machine can undo this, and perhaps not for ever."""
    same = out.exists() and file.exists() and out.samefile(file)
    require(not same, "the output would replace the input", got=out, allowed="another name", do="change --out")


def _here(name: str) -> str:
    """The model that a file names, if it is on this machine: a file must not decide what is downloaded."""
    do = "name it with --model: its present path, or a model of the hub"
    here = name in shipped()
    if not name.startswith((PREFIX, "\\\\", "//")):  # the hub, or another machine's disk
        with suppress(OSError, ValueError):  # cannot be a folder name
            here = here or Path(name).is_dir()
    require(here, "the model of this file was not found", got=repr(name[:80]), allowed="a model on this machine", do=do)
    return name


def _write(path: Path, content: bytes) -> None:
    with atomic_write(path) as file:
        file.write(content)


def _say(document: dict[str, Any], line: str, as_json: bool) -> None:
    if as_json:
        print_json(document)
    else:
        Console().print(line, highlight=False, markup=False, soft_wrap=True)
