"""Files that are whole or absent, and folders that belong to one purpose."""

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from .configs import differences
from .mistakes import fail


@contextmanager
def written_whole(path: Path, mode: str = "wb") -> Iterator[IO[Any]]:
    """Write a file so that it appears under its name only when it is complete and on disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.partial")
    try:
        with partial.open(mode, encoding=None if "b" in mode else "utf-8") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def write_json(path: Path, document: Any) -> None:
    """A readable JSON file, whole or absent."""
    with written_whole(path, "w") as file:
        file.write(json.dumps(document, indent=1, ensure_ascii=False) + "\n")


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
        check_same(folder, json.loads(file.read_text(encoding="utf-8")), document, holds=holds, same=same)
        return True
    others = [p for p in folder.iterdir() if not _ours(p, file)] if folder.exists() else []
    if others:
        fail(f"{folder} is not empty", got=f"{len(others)} entries", allowed="a new folder", do="choose another")
    with written_whole(file, "w") as out:
        json.dump(document, out, indent=1)
    return False


def _ours(path: Path, file: Path) -> bool:
    """What a kill may leave of an unfinished claim."""
    return path == file.parent or path.name == f".{file.name}.partial"


def check_same(folder: Path, old: Any, new: Any, *, holds: str, same: str) -> None:
    """Fail with the differing fields if two JSON documents differ."""
    changed = differences(old, json.loads(json.dumps(new)))
    if changed:
        do = "choose another folder, or take the change back"
        fail(f"{folder} {holds}", got="; ".join(changed), allowed=same, do=do)
