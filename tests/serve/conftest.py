"""A real server in its own process, with tiny models."""

import json
import os
import signal
import sys
from contextlib import contextmanager

import pytest

from tests import processes


@contextmanager
def serving(*models, flags=(), before="", **environment):
    """The address of a server that is stopped at the end; `before`: code that its process runs first."""
    program = f"import sys; from unmask.cli.main import main\n{before}\nsys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", program, "serve", *map(str, models), "--port", "0", "--json", *flags]
    process = processes.Popen(
        command, stdout=processes.PIPE, stderr=processes.PIPE, text=True, env=os.environ | environment
    )
    try:
        line = process.stdout.readline()
        assert line, process.stderr.read()
        yield json.loads(line)["address"], process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.communicate(timeout=20)
        except processes.TimeoutExpired:
            process.kill()
            process.communicate()


@pytest.fixture(scope="session")
def named_models(letters, pictures, subwords, molecules, tmp_path_factory):
    """The folders of some models, each with its own name."""
    folder = tmp_path_factory.mktemp("served")
    found = {"letters": letters, "pictures": pictures, "subwords": subwords, "molecules": molecules}
    for name, run in found.items():
        (folder / name).symlink_to(run)
    return [folder / name for name in found]


@pytest.fixture(scope="session")
def address(named_models):
    """The address of a server shared by all tests that do not change it."""
    with serving(*named_models) as (found, _):
        yield found
