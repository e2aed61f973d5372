"""The recipes start what they say, here with ranks on CPUs."""

import os
import shlex
import socket
import subprocess
from pathlib import Path

import pytest

RECIPES = Path(__file__).parent.parent / "recipes"
SMALL = "characters --steps 2 --batch-size 4 --layers 1 --heads 2 --width 16 --preview 0"
SMALL = shlex.split(SMALL + " --validation-sequences 2")


def environment(**extra):
    python = Path(os.sys.executable).parent
    return os.environ | {"OMP_NUM_THREADS": "1", "PATH": f"{python}:{os.environ['PATH']}"} | extra


def test_one_node(tmp_path):
    done = subprocess.run(
        [str(RECIPES / "one_node.sh"), *SMALL, "--out", "run", "--parallel", "fsdp"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=environment(RANKS="2"),
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert (tmp_path / "run" / "checkpoints" / "step-00000002").exists()


def test_several_nodes(tmp_path):
    """Two agents on this machine, as on two: they meet at HEAD and train one run."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(RECIPES / "several_nodes.sh"), *SMALL, "--out", "run"]
    nodes = [
        subprocess.Popen(
            command,
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(NODES="2", HEAD=f"127.0.0.1:{port}", RANKS="1", JOB=f"test-{port}"),
        )
        for _ in range(2)
    ]
    said = [node.communicate(timeout=120)[1][-2000:] for node in nodes]
    assert [node.returncode for node in nodes] == [0, 0], said
    assert (tmp_path / "run" / "checkpoints" / "step-00000002").exists()


@pytest.mark.parametrize("name", ["one_node.sh", "several_nodes.sh", "slurm.sbatch"])
def test_recipes_parse(name):
    shell = "bash" if name.endswith("sbatch") else "sh"
    subprocess.run([shell, "-n", str(RECIPES / name)], check=True)
    assert os.access(RECIPES / name, os.X_OK)


def test_missing_variables_are_named(tmp_path):
    done = subprocess.run(
        [str(RECIPES / "several_nodes.sh"), "characters"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={k: v for k, v in environment().items() if k not in ("NODES", "HEAD")},
    )
    assert done.returncode != 0
    assert "how many machines" in done.stderr
