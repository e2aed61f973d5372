"""Files that are whole or absent, and folders that belong to one purpose."""

import errno
import hashlib
import json
import math
import os
import secrets
import shutil
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, NoReturn

from .configs import differences
from .mistakes import fail, require

_LEFT = 3600.0
"""Seconds after which an unfinished file that does not grow has lost its writer."""


@contextmanager
def atomic_write(path: Path, mode: str = "wb") -> Iterator[IO[Any]]:
    """Write a file so that it appears under its name only when it is complete and on disk.

    Several may write it at once, each to a name of its own: the last one to end is there in the end.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    _sweep(path)
    partial = _partial(path)
    try:
        with named(path), partial.open(mode, encoding=None if "b" in mode else "utf-8") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        with named(path):
            partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def named(path: Path) -> Iterator[None]:
    """What the system says of writing, of a full disk mostly, names no file or a hidden one: say which it was."""
    try:
        yield
    except OSError as error:
        nameless = error.filename is None or _is_partial(Path(str(error.filename)), path)
        if nameless and error.errno is not None:
            raise OSError(error.errno, error.strerror, str(path)) from None
        raise


def _partial(path: Path) -> Path:
    """A name of one's own for what is not complete yet."""
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")


def _sweep(path: Path) -> None:
    """Remove what killed writers of a file or folder have left: nobody has written to it for long."""
    with suppress(OSError):  # gone meanwhile, or not ours to see or remove
        for found in path.parent.iterdir():
            if _is_partial(found, path) and time.time() - found.stat().st_mtime > _LEFT:
                remove(found)


def remove(path: Path) -> None:
    """A file or a folder, if it is there and can be removed."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _is_partial(found: Path, path: Path) -> bool:
    return found.name.startswith(f".{path.name}.") and found.name.endswith(".partial")


def check_files(*paths: Path | None) -> None:
    """Fail if one of these files could not be written, before the work that is to fill it; nothing is made or changed.

    Folders that are missing on the way there are no hindrance: they are made when it is written.
    """
    for path in paths:
        if path is not None:
            kind = "a folder" if path.is_dir() else "a device or a pipe" if path.exists() and not path.is_file() else ""
            if kind:
                do = "name a file in it" if path.is_dir() else "name another"
                fail(f"{path} is {kind}", got=kind, allowed="a file", do=do)
            _check_way(path, path.absolute().parents)


def check_folder(folder: Path) -> None:
    """The same for a folder that files are written into."""
    _check_no_file(folder)
    _check_way(folder, (folder.absolute(), *folder.absolute().parents))


def _check_no_file(folder: Path) -> None:
    with suppress(OSError):  # nothing there, or not any more
        is_folder = stat.S_ISDIR(folder.stat().st_mode)
        require(is_folder, f"{folder} is a file", got="a file", allowed="a new folder", do="choose another")


def _check_way(path: Path, folders: Sequence[Path]) -> None:
    """The nearest of these that is there must be a folder that we may write to."""
    nearest = next(folder for folder in folders if os.path.lexists(folder))
    what = f"{path} cannot be written"
    if not nearest.is_dir():
        fail(what, got=f"{nearest}, which is no folder", allowed="a path of folders", do="name another")
    if not os.access(nearest, os.W_OK | os.X_OK):
        fail(what, got=f"{nearest}, which is read-only for you", allowed="a folder of yours", do="name another")


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Within the block no other process that asks for this too writes to the folder; a kill sets it free.

    The folder itself is locked. Where there are no locks (Windows, some network disks), there is no refusal.
    """
    check_folder(folder)
    made = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with _locked(folder):
            yield
    finally:
        if made and folder.exists() and not any(folder.iterdir()):
            folder.rmdir()


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    if os.name != "posix":
        yield
        return
    import fcntl

    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        do = "wait for it, or choose another folder"
        fail(f"{folder} is in use", got="another process that writes there", allowed="one at a time", do=do)
    except OSError:
        pass
    try:
        yield
    finally:
        os.close(handle)


@contextmanager
def atomic_folder(folder: Path, files: Sequence[str]) -> Iterator[Path]:
    """Write a folder so that it appears under its name only when it is complete; the block gets one to write to.

    What is there already is replaced if it is empty or consists of some of these files, and kept otherwise. Several may
    write it at once: the last one to end is there in the end.
    """
    check_replaceable(folder, files)
    target = folder.resolve()
    partial = _partial(target)
    old = partial.with_suffix(".old")  # under this name nobody takes it for something unfinished
    partial.mkdir(parents=True)
    try:
        yield partial
        while not _moved(partial, target):  # another one has come there
            remove(old)
            with suppress(FileNotFoundError):
                target.rename(old)
    except BaseException:
        if old.exists() and not _moved(old, target):  # the new one could not take its place, but a third one could
            remove(old)
        raise
    finally:
        remove(partial)
    remove(old)
    _sweep(target)


def _moved(folder: Path, target: Path) -> bool:
    """Whether a folder has taken a name, which it does if that is free, or an empty folder's."""
    try:
        folder.rename(target)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        return False
    return True


def check_replaceable(folder: Path, files: Sequence[str]) -> None:
    """Fail if a folder could not be written, or holds anything but these files."""
    _check_no_file(folder)
    _check_way(folder, folder.resolve().parents)  # a new one takes its place
    others = []
    with suppress(FileNotFoundError):
        others = sorted(path.name for path in folder.iterdir() if path.name not in files)
    if others:
        fail(f"{folder} holds other things", got=", ".join(others[:3]), allowed="a new folder", do="choose another")


def write_json(path: Path, document: Any) -> None:
    """A readable file of standard JSON, whole or absent."""
    with atomic_write(path, "w") as file:
        file.write(json.dumps(standard(document), indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def standard(document: Any) -> Any:
    """The same as JSON knows it: null where a number is none, an error of one sequence for example."""
    match document:
        case dict():
            return {key: standard(value) for key, value in document.items()}
        case list() | tuple():
            return [standard(value) for value in document]
        case float() if not math.isfinite(document):
            return None
    return document


def read_text(path: Path) -> str:
    """What a text file holds, or one line that names the file."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        fail_undecoded(path, error)


def fail_undecoded(path: Path, error: UnicodeDecodeError) -> NoReturn:
    """Say which file is not UTF-8, and by which byte."""
    got, do = f"byte {error.object[error.start]:#04x}", "convert it (iconv -f latin1 -t utf-8), or name another file"
    fail(f"{path} is not UTF-8", got=got, allowed="UTF-8", do=do)


def read_json(path: Path, do: str = "get the file again") -> Any:
    """What a JSON file holds, or one line that names the file and what to do."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # not JSON, not UTF-8, or nested without end
        fail(f"{path} is damaged", got=error, allowed="a JSON document", do=do)


def read_kept(path: Path) -> Any:
    """A result that was kept; it can be had again."""
    return read_json(path, do="delete it, and start the command again")


def size_of(folder: Path) -> int:
    """Bytes of all files of a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def fingerprint(document: Any) -> str:
    """A short name for a JSON document: the same for the same, another for any other."""
    return hashlib.blake2b(json.dumps(document).encode(), digest_size=4).hexdigest()


def digest(path: Path, algorithm: str = "sha256") -> str:
    """The hex digest of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, algorithm).hexdigest()


def claim(folder: Path, file: Path, document: dict[str, Any], *, holds: str, same: str) -> bool:
    """Make a folder ours by writing `document` to `file` within it, or find that it is ours already.

    Returns whether it was. A folder that holds other things, or was claimed with another document, is an error that
    shows the difference.
    """
    document = json.loads(json.dumps(document))
    if file.exists():
        there = read_json(file)
        if not isinstance(there, dict):
            fail(f"{file} is damaged", got=f"{there!r:.40}", allowed="a JSON object", do="get the file again")
        check_same(folder, there, document, holds=holds, same=same)
        return True
    others = [p for p in folder.iterdir() if not _ours(p, file)] if folder.exists() else []
    if others:
        fail(f"{folder} is not empty", got=f"{len(others)} entries", allowed="a new folder", do="choose another")
    with atomic_write(file, "w") as out:
        json.dump(document, out, indent=1)
    return False


def _ours(path: Path, file: Path) -> bool:
    """What a kill may leave of an unfinished claim."""
    return path == file.parent or _is_partial(path, file)


def check_same(folder: Path, old: Any, new: Any, *, holds: str, same: str) -> None:
    """Fail with the differing fields if two JSON documents differ."""
    changed = differences(old, json.loads(json.dumps(new)))
    if changed:
        do = "choose another folder, or take the change back"
        fail(f"{folder} {holds}", got="; ".join(changed), allowed=same, do=do)
