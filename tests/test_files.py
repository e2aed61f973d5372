"""Files that are whole or absent, and what is said of those that cannot be written before anything is done."""

import errno
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests import processes
from unmask.cli.main import main
from unmask.files import atomic_folder, atomic_write, check_files, check_folder, named

WRITER = """
import sys
from pathlib import Path
from unmask.files import check_files, check_folder, atomic_write
for _ in range(100):
    with atomic_write(Path("a.txt"), "w") as file:
        file.write(sys.argv[1] * 10_000)
"""


def test_processes_that_write_one_file_do_not_meet(tmp_path):
    """Each ends well, and the file is that of one of them."""
    writers = [processes.Popen([sys.executable, "-c", WRITER, word], cwd=tmp_path) for word in "ab"]
    assert [writer.wait(60) for writer in writers] == [0, 0]
    assert (tmp_path / "a.txt").read_text() in ("a" * 10_000, "b" * 10_000)
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_the_last_one_to_end_is_there(tmp_path):
    path = tmp_path / "a.txt"
    with atomic_write(path, "w") as first:
        first.write("first")
        with atomic_write(path, "w") as second:
            second.write("second")
        assert path.read_text() == "second"
    assert path.read_text() == "first"


def test_a_writer_that_fails_leaves_what_was_there(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(TypeError), atomic_write(path, "w") as file:
        file.writelines(["new", 1])
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_what_killed_writers_left_goes_with_time(tmp_path):
    """Not what may still be written to, nor what belongs to another file."""
    kept, killed, other = ".a.txt.0a.partial", ".a.txt.0b.partial", ".b.txt.0b.partial"
    for name in (kept, killed, other):
        (tmp_path / name).touch()
    for name in (killed, other):
        os.utime(tmp_path / name, (time.time() - 7200,) * 2)
    with atomic_write(tmp_path / "a.txt", "w") as file:
        file.write("whole")
    assert {path.name for path in tmp_path.iterdir()} == {"a.txt", kept, other}


def test_folders_that_several_write_at_once_are_whole(tmp_path):
    """As by two exports to one name: none fails, one of them is there in the end, and nothing beside it."""
    target, names = tmp_path / "model", ["a", "b", "c"]

    def write(number):
        for _ in range(40):
            with atomic_folder(target, names) as folder:
                for name in names:
                    (folder / name).write_text(str(number))

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(write, number) for number in range(4)]:
            done.result()
    assert sorted(path.name for path in target.iterdir()) == names
    assert len({path.read_text() for path in target.iterdir()}) == 1
    assert list(tmp_path.iterdir()) == [target]


def test_a_folder_that_cannot_take_its_place_leaves_the_old_one(tmp_path):
    target = tmp_path / "model"
    target.mkdir()
    (target / "a").write_text("old")
    with pytest.raises(OSError, match="No such file"), atomic_folder(target, ["a"]) as folder:
        folder.rmdir()
    assert (target / "a").read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_what_cannot_be_put_back_is_kept(tmp_path, monkeypatch):
    """Neither the new one nor the old one can take the name: the old one stays beside it."""
    target = tmp_path / "model"
    target.mkdir()
    (target / "a").write_text("old")
    rename, tried = Path.rename, []

    def refused(path, name):
        if name == target and tried:
            raise PermissionError(errno.EACCES, "not allowed", str(name))
        tried.append(name)
        return rename(path, name)

    monkeypatch.setattr(Path, "rename", refused)
    with pytest.raises(PermissionError), atomic_folder(target, ["a"]) as folder:
        (folder / "a").write_text("new")
    assert tried[0] == target
    assert [path.read_text() for path in tmp_path.rglob("a")] == ["old"]


def test_a_full_disk_is_said_with_the_file(small_disk):
    for mode in ("wb", "w"):
        with pytest.raises(OSError, match="No space left") as caught, atomic_write(small_disk / "a", mode) as file:
            file.write(b"x" * 5_000_000 if "b" in mode else "x" * 5_000_000)
        assert caught.value.filename == str(small_disk / "a")
    with pytest.raises(OSError, match="no file in sight") as caught, named(small_disk):
        raise OSError("no file in sight")
    assert caught.value.filename is None


def test_places_that_can_be_written_are_left_as_they_are(tmp_path):
    """Missing folders are made later; what is there is replaced later."""
    (tmp_path / "a.txt").write_text("old")
    check_files(tmp_path / "a.txt", tmp_path / "new" / "b.txt", None)
    for folder in (tmp_path, tmp_path / "new" / "deeper"):
        check_folder(folder)
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]
    assert (tmp_path / "a.txt").read_text() == "old"


def test_places_that_cannot_be_written_are_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file, link, pipe = (tmp_path / name for name in ("file", "link", "pipe"))
    file.touch()
    link.symlink_to("nowhere")
    os.mkfifo(pipe)
    for bad, said in (
        (tmp_path, f"{tmp_path} is a folder: got a folder, allowed: a file; name a file in it"),
        (pipe, "is a device or a pipe: got"),
        (Path("file/a/b.txt"), f"file/a/b.txt cannot be written: got {file}, which is not a folder"),
        (Path("link/b.txt"), f"link/b.txt cannot be written: got {link}, which is not a folder"),
    ):
        with pytest.raises(ValueError, match=re.escape(said)):
            check_files(bad)
    for bad, said in (
        (file, f"{file} is a file: got a file, allowed: a new folder"),
        (file / "a", f"file/a cannot be written: got {file}, which is not a folder"),
        (link, f"{link} cannot be written: got {link}, which is not a folder"),
    ):
        with pytest.raises(ValueError, match=re.escape(said)):
            check_folder(bad)


def test_places_that_are_read_only_are_named(small_disk):
    (small_disk / "a.txt").write_text("old")
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    said = f"cannot be written: got {small_disk}, which is read-only for you"
    for path in (small_disk / "a.txt", small_disk / "new" / "b.txt"):
        with pytest.raises(ValueError, match=said):
            check_files(path)
    for folder in (small_disk, small_disk / "new"):
        with pytest.raises(ValueError, match=said):
            check_folder(folder)


COMMANDS = {
    "sample": ("sample", "nowhere", "--out"),
    "infill": ("infill", "nowhere", "a____", "--out"),
    "gif": ("sample", "nowhere", "--gif"),
    "html": ("infill", "nowhere", "a____", "--html"),
    "score": ("score", "nowhere", "text", "--html"),
    "samplers": ("samplers", "--steps", "0", "--plot"),
    "bench sample": ("bench", "sample", "nowhere", "--out"),
    "bench train": ("bench", "train", "characters", "--windows", "0", "--out"),
}
"""Each with another mistake, which is found only later."""
FOLDERS = {
    "data prepare": ("data", "prepare", "nowhere", "--out"),
    "train": ("train", "characters", "--data", "{data}", "--parallel", "fsdp", "--out"),
    "demo": ("demo", "--skip", "write", "fill", "score", "digits", "exact", "--steps", "1", "--out"),
    "frontier": ("frontier", "{run}", "--split", "nowhere", "--out"),
    "plot": ("plot", "{run}", "--out"),
    "export": ("export", "{run}"),
    "push": ("push", "{run}"),
}


@pytest.mark.parametrize("name", [*COMMANDS, *FOLDERS])
def test_a_place_that_cannot_be_written_is_said_before_the_work(name, letters, tmp_path, monkeypatch, capsys):
    """One line, and nothing is made, changed or emptied."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("kept")
    (tmp_path / "folder.txt").mkdir()
    words = COMMANDS.get(name) or FOLDERS[name]
    bad = {"./file/a.gif": "cannot be written"}
    bad |= {"./folder.txt": "is a folder"} if name in COMMANDS else {"./file": "is a file"}
    for place, said in bad.items():
        filled = [word.format(data=letters.parent / "data", run=letters) for word in words]
        assert main([*filled, place]) == 2
        out, error = capsys.readouterr()
        assert (out, error.count("\n")) == ("", 1)
        assert said in error
        assert Path(place).name in error
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "folder.txt"]
    assert (tmp_path / "file").read_text() == "kept"
