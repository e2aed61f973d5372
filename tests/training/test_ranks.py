"""Two real ranks (torchrun, gloo) train what one process trains, in either strategy, and hand a run to each other."""

import contextlib
import json
import os
import signal
import socket
import sys
import time

import numpy as np
import pytest

from tests import processes
from unmask.data import Plan, prepare
from unmask.training import TrainingConfig
from unmask.training.loop import _check_share
from unmask.training.world import World

TRAIN = ["-m", "unmask", "train"]
SMALL = "--batch-size 8 --layers 2 --heads 2 --width 16 --value-residuals --dropout 0.1 --save-every 4"
SMALL += " --validate-every 6 --preview 1 --validation-sequences 7 --preview-steps 4 --steps 12"


@pytest.fixture(scope="module")
def molecules(tmp_path_factory):
    folder = tmp_path_factory.mktemp("molecules")
    (folder / "a.smi").write_text("\n".join(["CO", "CCCC", "CCO", "CCCCO"] * 40))
    prepare(Plan(str(folder / "a.smi")), folder / "data")
    return str(folder / "data")


def command(data, out, ranks, *flags):
    start = [sys.executable, *TRAIN]
    if ranks > 1:
        start = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks), *TRAIN]
    return [*start, "--data", data, "--out", str(out), *SMALL.split(), *flags]


def run(*arguments, check=True):
    """As a user does, with torchrun for several ranks."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = processes.run(command(*arguments), capture_output=True, text=True, timeout=180, env=environment)
    assert not check or done.returncode == 0, done.stderr[-3000:]
    return done


def run_two(data, out, *flags):
    """Two ranks that train."""
    return two_ranks(command(data, out, 1, *flags))


def two_ranks(words):
    """A command with the variables that torchrun sets, so that the ranks need not import everything again."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    there = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": "2", "OMP_NUM_THREADS": "1"}
    pipes = {"stdout": processes.PIPE, "stderr": processes.PIPE, "text": True}
    ranks = [processes.Popen(words, env=os.environ | there | {"RANK": n, "LOCAL_RANK": n}, **pipes) for n in "01"]
    said = [rank.communicate(timeout=180) for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], said
    return "".join(printed for printed, _ in said)


def curve(folder):
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    held_out = [line["validation"]["mean"] for line in lines if "validation" in line]
    return [line["step"] for line in lines], [line["loss"] for line in lines], held_out


def assert_same_curve(a, b):
    """To float32 tolerance: gradients are added up in another order."""
    (steps_a, loss_a, held_a), (steps_b, loss_b, held_b) = curve(a), curve(b)
    assert steps_a == steps_b == list(range(1, len(steps_a) + 1))
    np.testing.assert_allclose(loss_a, loss_b, rtol=2e-4)
    np.testing.assert_allclose(held_a, held_b, rtol=2e-4)


@pytest.fixture(scope="module")
def alone(text, tmp_path_factory):
    folder = tmp_path_factory.mktemp("alone") / "run"
    run(text, folder, 1)
    return folder


@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_two_ranks_give_the_curve_of_one(text, alone, tmp_path, parallel):
    printed = run_two(text, tmp_path / "run", "--parallel", parallel)
    assert_same_curve(tmp_path / "run", alone)
    assert printed.count("done:") == 1  # one rank speaks
    assert len(list((tmp_path / "run" / "samples").iterdir())) == 2


@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_gradient_accumulation(text, alone, tmp_path, parallel):
    run_two(text, tmp_path / "run", "--parallel", parallel, "--micro-batch", "2")
    assert_same_curve(tmp_path / "run", alone)


COUNT_EXCHANGES = """
import sys, torch
from pathlib import Path
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from tests.training.test_run import config
from unmask.run import build_trainer
from unmask.training.world import joined
with joined(torch.device("cpu")) as world:
    setup = config(sys.argv[1], micro_batch=1, steps=2)
    trainer = build_trainer(setup, Path(sys.argv[2]), torch.device("cpu"), world, "ddp")
    seen = []
    def exchange(state, bucket):
        seen.append(trainer.done)
        return allreduce_hook(state, bucket)
    trainer.strategy._wrapped.register_comm_hook(None, exchange)
    trainer.launch(), trainer.launch()
    print(sorted(set(seen)), len(seen))
"""


def test_gradients_are_exchanged_once_in_a_step(text, tmp_path):
    """Of four micro-batches only the last tells the other rank; a small model's gradients are one bucket."""
    said = two_ranks([sys.executable, "-c", COUNT_EXCHANGES, text, str(tmp_path)])
    assert said.split("\n")[:2] == ["[0, 1] 2", "[0, 1] 2"]


def test_learned_schedules_muon_and_a_tied_table(text, tmp_path):
    flags = ("--method", "genmd4", "--optimizer", "muon", "--tied")
    run(text, tmp_path / "one", 1, *flags)
    run_two(text, tmp_path / "two", "--parallel", "fsdp", *flags)
    assert_same_curve(tmp_path / "two", tmp_path / "one")


def test_padded_rows_count_once(molecules, tmp_path):
    """Rows differ in length, so ranks differ in tokens: the loss is per token of the whole batch."""
    run(molecules, tmp_path / "one", 1, "--weighting", "ce")
    run_two(molecules, tmp_path / "two", "--weighting", "ce")
    assert_same_curve(tmp_path / "two", tmp_path / "one")


def test_a_run_moves_between_strategies_and_numbers_of_ranks(text, alone, tmp_path):
    """Stopped again and again by SIGTERM, it goes 1 → 2 (fsdp) → 1 → 2 (ddp) → 2 (fsdp), and the curve is one."""
    out = tmp_path / "run"
    for ranks, flags in ((1, ()), (2, ("--parallel", "fsdp")), (1, ()), (2, ("--parallel", "ddp"))):
        before = _steps(out)
        process = processes.Popen(
            command(text, out, ranks, *flags), stdout=processes.PIPE, stderr=processes.PIPE, text=True
        )
        while _steps(out) <= before and process.poll() is None:
            time.sleep(0.02)
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.communicate(timeout=120)
    run(text, out, 2, "--parallel", "fsdp")
    assert_same_curve(out, alone)


def _steps(out):
    found = sorted(p.name for p in (out / "checkpoints").glob("step-*")) if (out / "checkpoints").exists() else []
    return found[-1] if found else ""


def test_a_rank_that_dies_ends_all_and_a_restart_goes_on(text, alone, tmp_path):
    """SIGKILL to one of two ranks: the others end within seconds with a word about it; the same command goes on."""
    out = tmp_path / "run"
    process = processes.Popen(
        command(text, out, 2, "--parallel", "ddp"), stdout=processes.PIPE, stderr=processes.PIPE, text=True
    )
    while not _steps(out) and process.poll() is None:
        time.sleep(0.02)
    ranks = _children(process.pid)
    if ranks:
        with contextlib.suppress(ProcessLookupError):
            os.kill(ranks[-1], signal.SIGKILL)
    _, said = process.communicate(timeout=90)
    if process.returncode:
        assert "Signal 9 (SIGKILL) received" in said  # torchrun's word
    run(text, out, 2, "--parallel", "ddp")
    assert_same_curve(out, alone)


@pytest.mark.parametrize("attempt", range(3))
def test_torchrun_restarts_all_ranks_when_one_dies(text, alone, tmp_path, attempt):
    """As in recipes/one_node.sh. A new rank must not meet addresses of the old ones; that was a race."""
    del attempt
    out = tmp_path / "run"
    words = command(text, out, 2, "--parallel", "ddp")
    words[words.index("--nproc-per-node") : words.index("--nproc-per-node")] = ["--max-restarts", "2"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    process = processes.Popen(words, stdout=processes.PIPE, stderr=processes.PIPE, text=True, env=environment)
    while not _steps(out) and process.poll() is None:
        time.sleep(0.02)
    for rank in _children(process.pid)[-1:] if process.poll() is None else []:
        with contextlib.suppress(ProcessLookupError):
            os.kill(rank, signal.SIGKILL)
    _, said = process.communicate(timeout=90)
    assert process.returncode == 0, said[-3000:]
    assert_same_curve(out, alone)


def _children(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(child) for child in file.read().split()]


def test_bad_input_is_one_line_from_the_first_rank(text, tmp_path):
    done = run(text, tmp_path / "run", 2, "--batch-size", "6", check=False)
    assert done.returncode != 0
    assert done.stderr.count("the batch cannot be divided among the ranks: got 6 sequences for 2 ranks") == 1
    assert not (tmp_path / "run").exists()


def test_micro_batches_must_divide_the_share_of_a_rank():
    with pytest.raises(ValueError, match="the micro-batch does not divide a rank's share: got 8 of 4"):
        _check_share(TrainingConfig(batch_size=8, micro_batch=8), World(0, 2))


def test_strategies_need_ranks(text, tmp_path):
    done = run(text, tmp_path / "run", 1, "--parallel", "fsdp", check=False)
    assert done.returncode == 2
    assert "fsdp needs several ranks: got one process" in done.stderr
    assert not (tmp_path / "run").exists()
