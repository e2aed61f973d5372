"""What the tests share: deterministic hypothesis, and one thread per worker so that workers do not fight."""

import os
import subprocess

import pytest
import torch
from hypothesis import settings

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # our kernels, on any machine; before unmask is imported

pytest_plugins = ["tests.small_models"]

settings.register_profile("fixed", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("fixed")

if "PYTEST_XDIST_WORKER" in os.environ:
    torch.set_num_threads(1)
    os.environ["OMP_NUM_THREADS"] = "1"  # for the processes that tests start, too


@pytest.fixture
def small_disk(tmp_path):
    """A real file system of 1 MiB, which fills up; needs root, which CI is."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting needs root")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)  # lazily: a failed test may have left a process in it


def pytest_collection_modifyitems(items):
    """The longest test first, so that the other worker does the rest meanwhile."""
    items.sort(key=lambda item: "make_demo" not in item.name)
