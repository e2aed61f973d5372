import json
import os
import shutil
import signal
import sys
import time

import pytest
import torch

from tests import processes
from unmask.training import checkpoint
from unmask.training.checkpoint import Snapshot


def snapshot(step, size=5):
    generator = torch.Generator().manual_seed(step)
    weights = {"a.weight": torch.randn(size, 3, generator=generator), "b": torch.randn(4, generator=generator)}
    average = {k: v + 1 for k, v in weights.items()}
    moments = torch.randn(3, size, generator=generator).T  # laid out otherwise, as convolutions' are on a GPU
    optimizer = {"a.exp_avg": moments, "a.step": torch.tensor(float(step))}
    return Snapshot(step, weights, average, optimizer, {"best": 1.5})


def assert_same(a, b):
    assert (a.step, a.numbers) == (b.step, b.numbers)
    for x, y in ((a.weights, b.weights), (a.average, b.average), (a.optimizer, b.optimizer)):
        assert x.keys() == y.keys()
        assert all(torch.equal(x[k], y[k]) for k in x)


def reload(folder, like, warn=print):
    """The newest checkpoint, its optimiser's tensors read into zeros of the right shapes."""
    targets = {name: torch.zeros_like(value) for name, value in like.optimizer.items()}
    return checkpoint.load(checkpoint.newest(folder, warn), targets)


def test_what_is_saved_comes_back(tmp_path):
    path = checkpoint.save(tmp_path, snapshot(7))
    assert checkpoint.newest(tmp_path) == path
    assert_same(reload(tmp_path, snapshot(7)), snapshot(7))
    assert checkpoint.newest(tmp_path / "nothing") is None
    assert torch.equal(checkpoint.load_weights(path)["b"], snapshot(7).average["b"])
    assert torch.equal(checkpoint.load_weights(path, average=False)["b"], snapshot(7).weights["b"])


def test_nothing_is_pickled(tmp_path):
    """Every file is safetensors or JSON: reading a checkpoint of someone else's runs no code."""
    path = checkpoint.save(tmp_path, snapshot(7))
    assert {p.suffix for p in path.rglob("*") if p.is_file()} == {".safetensors", ".json"}


def test_the_last_few_and_the_best_are_kept(tmp_path):
    for step in (1, 2, 3, 4, 5):
        checkpoint.save(tmp_path, snapshot(step))
        checkpoint.prune(tmp_path, keep=2, best=2, last=step)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["step-00000002", "step-00000004", "step-00000005"]


def test_what_is_not_ours_is_neither_read_nor_deleted(tmp_path):
    """A copy that a user has put aside is no checkpoint, whatever sorts after it."""
    for step in (1, 2):
        checkpoint.save(tmp_path, snapshot(step))
    for name in ("step-00000002.keep", "step-x"):
        shutil.copytree(tmp_path / "step-00000002", tmp_path / name)
    shutil.rmtree(tmp_path / "step-00000002")
    assert checkpoint.newest(tmp_path) == tmp_path / "step-00000001"
    checkpoint.save(tmp_path, snapshot(3))
    checkpoint.prune(tmp_path, keep=1, best=None, last=3)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["step-00000002.keep", "step-00000003", "step-x"]


def test_nothing_is_begun_again_where_nothing_is_whole(tmp_path):
    """Weights may be whole where moments are not: to begin again would write over them."""
    for step in (1, 2):
        shutil.rmtree(checkpoint.save(tmp_path, snapshot(step)) / "optimizer")
    said = []
    with pytest.raises(ValueError, match=r"step-00000001 is damaged.*no other one is intact: move .* away"):
        checkpoint.newest(tmp_path, said.append)
    assert len(said) == 1


def test_others_may_read_what_the_umask_lets_them(tmp_path):
    path = checkpoint.save(tmp_path, snapshot(1))
    assert {p.stat().st_mode for p in path.rglob("*") if p.is_file()} == {(path / "state.json").stat().st_mode}


@pytest.mark.parametrize("damage", ["flip", "cut", "missing", "json", "step", "hashes", "binary"])
def test_a_damaged_checkpoint_is_named_and_passed_over(tmp_path, damage):
    for step in (1, 2):
        checkpoint.save(tmp_path, snapshot(step))
    newest = tmp_path / "step-00000002"
    weights = newest / "weights.safetensors"
    data = bytearray(weights.read_bytes())
    if damage == "flip":
        data[-1] ^= 1
        weights.write_bytes(data)
    elif damage == "cut":
        weights.write_bytes(data[:20])
    elif damage == "missing":
        weights.unlink()
    else:
        whole = json.loads((newest / "state.json").read_text())
        found = {"json": b"{", "step": json.dumps(whole | {"step": "a"}), "hashes": json.dumps(whole | {"sha256": {}})}
        content = found.get(damage, b"\xff\xfe")
        (newest / "state.json").write_bytes(content if isinstance(content, bytes) else content.encode())
    said = []
    assert_same(reload(tmp_path, snapshot(1), said.append), snapshot(1))
    assert len(said) == 1
    assert "step-00000002" in said[0]
    assert "is damaged" in said[0]


def test_damaged_checkpoints_do_not_take_the_place_of_whole_ones(tmp_path):
    """Passed over on the way back to step 1, they are no longer needed when step 2 is there."""
    for step in (1, 3, 4):
        checkpoint.save(tmp_path, snapshot(step))
    for step in (3, 4):
        (tmp_path / f"step-0000000{step}" / "weights.safetensors").unlink()
    assert_same(reload(tmp_path, snapshot(1), lambda _: None), snapshot(1))
    newest = checkpoint.save(tmp_path, snapshot(2))
    checkpoint.prune(tmp_path, keep=1, best=None, last=2)
    assert list(tmp_path.iterdir()) == [newest]


def test_saving_again_replaces(tmp_path):
    checkpoint.save(tmp_path, snapshot(3))
    changed = Snapshot(3, {"x": torch.zeros(1)}, {"x": torch.ones(1)}, {"x.step": torch.ones(())}, {})
    checkpoint.save(tmp_path, changed)
    assert_same(reload(tmp_path, changed), changed)


SAVE_FOREVER = """
import sys, itertools
from pathlib import Path
from tests import processes
from tests.training.test_checkpoint import snapshot
from unmask.training import checkpoint
for step in itertools.count(1):
    checkpoint.save(Path(sys.argv[1]), snapshot(step, size=40_000))
    checkpoint.prune(Path(sys.argv[1]), keep=2, best=None, last=step)
"""


def test_killed_while_saving_a_whole_checkpoint_remains(tmp_path):
    """Real SIGKILLs at arbitrary moments: what is found afterwards is always whole, and never older than two saves."""
    for round_number, delay in enumerate((0.0, 0.013, 0.041, 0.067)):
        folder = tmp_path / str(round_number)
        folder.mkdir()
        process = processes.Popen([sys.executable, "-c", SAVE_FOREVER, str(folder)])
        while not list(folder.glob("step-*")):
            assert process.poll() is None
            time.sleep(0.01)
        time.sleep(0.3 + delay)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        said = []
        found = reload(folder, snapshot(1, size=40_000), said.append)
        assert said == []
        assert_same(found, snapshot(found.step, size=40_000))


def test_a_full_disk_keeps_the_checkpoint_before(small_disk):
    checkpoint.save(small_disk, snapshot(1, size=20_000))
    for size in (12_000, 30_000, 200_000):  # full while writing the optimiser, the average, the weights
        with pytest.raises(OSError, match=r"step-00000002 could not be written: .*(No space|os error 28|StorageFull)"):
            checkpoint.save(small_disk, snapshot(2, size=size))
        assert [p.name for p in small_disk.iterdir()] == ["step-00000001"]
    assert_same(reload(small_disk, snapshot(1, size=20_000)), snapshot(1, size=20_000))


def test_a_full_disk_at_the_first_checkpoint_promises_none_before(small_disk):
    with pytest.raises(OSError, match="step-00000001 could not be written: ") as caught:
        checkpoint.save(small_disk, snapshot(1, size=200_000))
    assert "intact" not in str(caught.value)


def test_what_a_kill_left_of_other_checkpoints_goes(tmp_path):
    (tmp_path / ".step-00000003.partial").mkdir()
    (tmp_path / ".step-00000003.partial" / "weights.safetensors").write_bytes(b"half")
    checkpoint.save(tmp_path, snapshot(12))
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000012"]


def test_state_is_readable(tmp_path):
    path = checkpoint.save(tmp_path, snapshot(12))
    document = json.loads((path / "state.json").read_text())
    assert document["step"] == 12
    assert document["numbers"] == {"best": 1.5}
