"""Files that are whole or absent, and what is said of those that cannot be written before anything is done."""

import os
import sys
import time

import pytest

from tests import processes
from unmask.files import written_whole

WRITER = """
import sys
from pathlib import Path
from unmask.files import written_whole
for _ in range(100):
    with written_whole(Path("a.txt"), "w") as file:
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
    with written_whole(path, "w") as first:
        first.write("first")
        with written_whole(path, "w") as second:
            second.write("second")
        assert path.read_text() == "second"
    assert path.read_text() == "first"


def test_a_writer_that_fails_leaves_what_was_there(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(TypeError), written_whole(path, "w") as file:
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
    with written_whole(tmp_path / "a.txt", "w") as file:
        file.write("whole")
    assert {path.name for path in tmp_path.iterdir()} == {"a.txt", kept, other}
