"""Files that are complete or absent, and folders that serve one purpose."""

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
"""Seconds after which an unfinished file that does not change counts as abandoned."""


@contextmanager
def atomic_write(path: Path, mode: str = "wb") -> Iterator[IO[Any]]:
    """Write a file so that it appears under its name only when it is complete and on disk.

    Several writers may be active at once, each with its own temporary name: the last one to finish wins.
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
    """Name the file in system errors on writing (a full disk, mostly), which name no file or a temporary one."""
    try:
        yield
    except OSError as error:
        nameless = error.filename is None or _is_partial(Path(str(error.filename)), path)
        if nameless and error.errno is not None:
            raise OSError(error.errno, error.strerror, str(path)) from None
        raise


def _partial(path: Path) -> Path:
    """A unique temporary name for an incomplete file or folder."""
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")


def _sweep(path: Path) -> None:
    """Remove what killed writers of a file or folder have left behind: partial files unchanged for an hour."""
    with suppress(OSError):  # gone in the meantime, or no permission
        for found in path.parent.iterdir():
            if _is_partial(found, path) and time.time() - found.stat().st_mtime > _LEFT:
                remove(found)


def remove(path: Path) -> None:
    """Remove a file or a folder, if it exists and can be removed."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _is_partial(found: Path, path: Path) -> bool:
    return found.name.startswith(f".{path.name}.") and found.name.endswith(".partial")


def check_files(*paths: Path | None) -> None:
    """Fail if one of these files could not be written, before the work that produces it; nothing is created or changed.

    Missing parent folders are fine: they are created when the file is written.
    """
    for path in paths:
        if path is not None:
            kind = "a folder" if path.is_dir() else "a device or a pipe" if path.exists() and not path.is_file() else ""
            if kind:
                do = "name a file in it" if path.is_dir() else "name another file"
                fail(f"{path} is {kind}", got=kind, allowed="a file", do=do)
            _check_way(path, path.absolute().parents)


def check_folder(folder: Path) -> None:
    """Fail if files could not be written to this folder; like `check_files`."""
    _check_no_file(folder)
    _check_way(folder, (folder.absolute(), *folder.absolute().parents))


def _check_no_file(folder: Path) -> None:
    with suppress(OSError):  # it does not exist, or no longer
        is_folder = stat.S_ISDIR(folder.stat().st_mode)
        require(is_folder, f"{folder} is a file", got="a file", allowed="a new folder", do="choose another")


def _check_way(path: Path, folders: Sequence[Path]) -> None:
    """Fail unless the nearest existing one of these folders is a folder with write permission."""
    nearest = next(folder for folder in folders if os.path.lexists(folder))
    what = f"{path} cannot be written"
    if not nearest.is_dir():
        fail(what, got=f"{nearest}, which is not a folder", allowed="a path inside a folder", do="choose another")
    if not os.access(nearest, os.W_OK | os.X_OK):
        fail(what, got=f"{nearest}, which is read-only for you", allowed="a writable folder", do="choose another")


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Within the block, no other process that calls this writes to the folder; a kill releases the lock.

    The folder itself is locked. Where locks are unavailable (Windows, some network disks), nothing is refused.
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
        fail(f"{folder} is in use", got="another process writing to it", allowed="one process at a time", do=do)
    except OSError:
        pass
    try:
        yield
    finally:
        os.close(handle)


@contextmanager
def atomic_folder(folder: Path, files: Sequence[str], optional: Sequence[str] = ()) -> Iterator[Path]:
    """Write a folder so that it appears under its name only when it is complete; the block gets a temporary folder.

    An existing folder is replaced if it is empty or was written so (`check_replaceable`). Several writers
    may be active at once: the last one to finish wins.
    """
    check_replaceable(folder, files, optional)
    target = folder.resolve()
    partial = _partial(target)
    old = partial.with_suffix(".old")  # a name that is not taken for an unfinished folder
    partial.mkdir(parents=True)
    try:
        yield partial
        while not _moved(partial, target):  # another writer's folder is in its place
            remove(old)
            with suppress(FileNotFoundError):
                target.rename(old)
    except BaseException:
        if old.exists() and not _moved(old, target):  # the new one failed to move, and a third one took the place
            remove(old)
        raise
    finally:
        remove(partial)
    remove(old)
    _sweep(target)


def _moved(folder: Path, target: Path) -> bool:
    """Rename a folder if the name is free or belongs to an empty folder; returns whether it did."""
    try:
        folder.rename(target)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        return False
    return True


def check_replaceable(folder: Path, files: Sequence[str], optional: Sequence[str] = ()) -> None:
    """Fail if a folder could not be written, or would be lost: it is empty, or holds these files and no others."""
    _check_no_file(folder)
    _check_way(folder, folder.resolve().parents)  # a new folder replaces it
    there: set[str] = set()
    with suppress(FileNotFoundError):
        there = {path.name for path in folder.iterdir()}
    others = there - set(files) or (there if set(files) - there - set(optional) else set())
    if others:
        got = ", ".join(sorted(others)[:3])
        fail(f"{folder} holds other files", got=got, allowed="a new folder", do="choose another")


def write_json(path: Path, document: Any) -> Any:
    """Write readable standard JSON, atomically; returns what reading it gives."""
    document = standard(document)
    with atomic_write(path, "w") as file:
        file.write(json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n")
    return document


def standard(document: Any) -> Any:
    """The document in standard JSON: null for NaN and infinity, for example the error of one sequence."""
    match document:
        case dict():
            return {key: standard(value) for key, value in document.items()}
        case list() | tuple():
            return [standard(value) for value in document]
        case float() if not math.isfinite(document):
            return None
    return document


def read_text(path: Path) -> str:
    """The content of a text file with its own ends of line, or a one-line error that names the file."""
    try:
        return path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        fail_undecoded(path, error)


def fail_undecoded(path: Path | str, error: UnicodeDecodeError) -> NoReturn:
    """Fail with the name of the file that is not UTF-8, and the offending byte."""
    got, do = f"byte {error.object[error.start]:#04x}", "convert it (iconv -f latin1 -t utf-8), or name another file"
    fail(f"{path} is not UTF-8", got=got, allowed="UTF-8", do=do)


def read_json(path: Path, do: str = "get the file again") -> Any:
    """The content of a JSON file, or a one-line error that names the file and what to do."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # not JSON, not UTF-8, or nested too deeply
        fail(f"{path} is damaged", got=error, allowed="a JSON document", do=do)


def read_kept(path: Path) -> Any:
    """A stored result, which can be recomputed."""
    return read_json(path, do="delete it, and run the command again")


def size_of(folder: Path) -> int:
    """Total size in bytes of the files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def fingerprint(document: Any) -> str:
    """A short hash of a JSON document: equal documents have equal fingerprints."""
    return hashlib.blake2b(json.dumps(document).encode(), digest_size=4).hexdigest()


def digest(path: Path, algorithm: str = "sha256") -> str:
    """The hex digest of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, algorithm).hexdigest()


UNDO = "choose another folder, or undo the change"


def claim(folder: Path, file: Path, document: dict[str, Any], *, holds: str, same: str, do: str = UNDO) -> bool:
    """Claim a folder by writing `document` to `file` in it, or find that it was already claimed with this document.

    Returns whether it was. A folder that holds other files, or was claimed with another document, is an error that
    shows the difference.
    """
    document = json.loads(json.dumps(document))
    if file.exists():
        there = read_json(file)
        if not isinstance(there, dict):
            fail(f"{file} is damaged", got=f"{there!r:.40}", allowed="a JSON object", do="get the file again")
        check_same(folder, there, document, holds=holds, same=same, do=do)
        return True
    others = [p for p in folder.iterdir() if not _ours(p, file)] if folder.exists() else []
    if others:
        fail(f"{folder} is not empty", got=f"{len(others)} entries", allowed="a new folder", do="choose another")
    with atomic_write(file, "w") as out:
        json.dump(document, out, indent=1)
    return False


def _ours(path: Path, file: Path) -> bool:
    """Whether a path belongs to an unfinished claim, as a kill may leave it."""
    return path == file.parent or _is_partial(path, file)


def check_same(folder: Path, old: Any, new: Any, *, holds: str, same: str, do: str = UNDO) -> None:
    """Fail with the differing fields if two JSON documents differ."""
    changed = differences(old, json.loads(json.dumps(new)))
    if changed:
        fail(f"{folder} {holds}", got="; ".join(changed), allowed=same, do=do)
