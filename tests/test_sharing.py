"""Models handed on: exported, loaded from anywhere, pushed and fetched; and folders that are damaged or hostile."""

import json
import os
import pickle
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import unmask
from tests import processes
from tests.commands import run
from tests.hub_server import serving
from tests.processes import several
from tests.small_models import trained
from unmask.cli.main import main
from unmask.files import digest
from unmask.run import Exported, Run, export, find_model
from unmask.run.config import METHODS
from unmask.run.places import shipped

FILES = ["README.md", "config.json", "data.json", "model.safetensors", "vocabulary.json"]


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture(scope="module")
def model(letters, tmp_path_factory):
    """An export of the run of letters, its run not needed; without the figures that other tests may have added."""
    run = shutil.copytree(letters, tmp_path_factory.mktemp("run") / "letters", ignore=shutil.ignore_patterns("evals"))
    folder = tmp_path_factory.mktemp("models") / "letters"
    export(find_model(run), folder)
    return folder


@pytest.fixture
def copy(model, tmp_path):
    """An export to be damaged."""
    return Path(shutil.copytree(model, tmp_path / "copy"))


def test_an_export_is_the_model(letters, model):
    """The same samples and likelihoods as the run, to the last bit."""
    assert names(model) == FILES
    ours, theirs = unmask.load(letters), unmask.load(model)
    assert ours.sample(3, steps=8, seed=1) == theirs.sample(3, steps=8, seed=1)
    assert ours.log_likelihood(["aAbB"]) == theirs.log_likelihood(["aAbB"])


@pytest.mark.parametrize("options", [{"average": False}, {"best": True}], ids=["plain", "best"])
def test_which_weights(letters, tmp_path, options):
    done = export(find_model(letters), tmp_path / "m", **options)
    theirs, ours = unmask.load(done.folder), unmask.load(letters, **options)
    expected = ours.method.state_dict()
    for name, x in theirs.method.state_dict().items():
        torch.testing.assert_close(x, expected[name], rtol=0, atol=0)
    plain = {True: "averaged", False: "plain"}[options.get("average", True)]
    assert done.about()["weights"] == plain


def test_bf16_takes_half_the_room_and_is_float32_in_memory(letters, model, tmp_path):
    small = export(find_model(letters), tmp_path / "m", dtype="bf16").folder / "model.safetensors"
    assert small.stat().st_size < 0.6 * (model / "model.safetensors").stat().st_size
    assert {x.dtype for x in load_file(small).values()} == {torch.bfloat16}
    loaded, exact = unmask.load(small.parent).method.state_dict(), unmask.load(model).method.state_dict()
    assert {x.dtype for x in loaded.values()} == {torch.float32}
    for name, x in loaded.items():
        torch.testing.assert_close(x, exact[name], rtol=2**-8, atol=1e-30)


def test_an_export_of_an_export_says_the_same(model, tmp_path):
    again = export(find_model(model), tmp_path / "letters")
    assert again.about() == Exported(model, model).about()
    for name in FILES:
        assert (again.folder / name).read_bytes() == (model / name).read_bytes()


def test_the_card_has_no_figures_of_other_weights(letters, tmp_path, capsys):
    """What was measured of an earlier checkpoint stays with it."""
    run = shutil.copytree(letters, tmp_path / "run", ignore=shutil.ignore_patterns("evals"))
    assert main(["eval", str(run), "--draws", "1", "--repeats", "2", "--sequences", "4", "--json"]) == 0
    (kept,) = (path for path in (run / "evals").glob("*.json") if "checkpoint" in json.loads(path.read_text()))
    document = json.loads(kept.read_text())
    kept.write_text(json.dumps(document | {"checkpoint": "step-00000007"}))
    assert "Measured" not in (export(find_model(run), tmp_path / "m").folder / "README.md").read_text()
    kept.write_text(json.dumps(document | {"average": False}))
    assert "Measured" not in (export(find_model(run), tmp_path / "m").folder / "README.md").read_text()
    assert "- test: " in (export(find_model(run), tmp_path / "m", average=False).folder / "README.md").read_text()
    kept.write_text(json.dumps(document | {"checkpoint": "step-00000007"}))
    capsys.readouterr()
    assert main(["info", str(run)]) == 0
    assert "bits per token, 4 of" in (out := " ".join(capsys.readouterr().out.split()))
    assert "sequences, of step-00000007" in out


def test_the_card_names_what_matters_and_no_path(letters, tmp_path, capsys):
    assert main(["eval", str(letters), "--draws", "1", "--repeats", "2", "--sequences", "4", "--json"]) == 0
    card = (export(find_model(letters), tmp_path / "letters").folder / "README.md").read_text()
    for words in ("MD4", "Transformer: layers 2", "8 characters", "300 steps of 32", "± ", "unmask sample letters"):
        assert words in card
    assert "- test: " in card  # the evaluation
    again = export(find_model(tmp_path / "letters"), tmp_path / "again").folder
    assert "- test: " in (again / "README.md").read_text()
    capsys.readouterr()
    assert main(["info", str(again)]) == 0
    evaluations = capsys.readouterr().out.split("evaluations")[1]  # other tests may have measured this run too
    assert any(line.strip().startswith("test: ") for line in evaluations.splitlines())
    assert str(letters.parent) not in "".join(p.read_text(errors="replace") for p in (tmp_path / "letters").iterdir())


@pytest.mark.parametrize("method", METHODS)
def test_every_method_can_be_exported(letters, tmp_path, method):
    folder = trained(letters.parent / "data", tmp_path / "run", method=method, steps=1)
    done = export(find_model(folder), tmp_path / "m")
    assert unmask.load(done.folder).sample(1, steps=2) == unmask.load(folder).sample(1, steps=2)


@pytest.mark.parametrize("fixture", ["pictures", "molecules", "subwords"])
def test_every_kind_of_data_can_be_exported(request, tmp_path, monkeypatch, fixture):
    monkeypatch.chdir(tmp_path)
    folder = request.getfixturevalue(fixture)
    done = export(find_model(folder), tmp_path / "m", dtype="bf16")
    assert unmask.load(done.folder).facts == Run(folder).facts
    assert main(["eval", str(done.folder), "--data", str(folder.parent / "data"), "--sequences", "2", "--json"]) == 0


def test_the_commands_take_an_export(letters, model, tmp_path, monkeypatch):
    """In a folder of its own, away from run and data; what is measured goes below the present folder."""
    monkeypatch.chdir(tmp_path)
    data = letters.parent / "data"
    small = ["--samplers", "ancestral", "--steps", "2", "-n", "4", "--json"]
    for words in (
        ["sample", model, "-n", 1, "--steps", 2],
        ["infill", model, "aA[MASK:4]", "--steps", 2],
        ["score", model, "aAbB"],
        ["eval", model, "--data", data, "--sequences", 2],
        ["eval", model, "--data", data, "--sequences", 2, "--estimator", "controlled"],
        ["compare", model, letters, "--data", data, "--sequences", 2],
        ["frontier", model, "--data", data, *small],
    ):
        assert main([str(word) for word in words]) == 0, words
    assert names(model) == FILES
    assert names(tmp_path / "results" / "letters") == ["evals", "frontier"]


def test_results_belong_to_the_weights(letters, model, copy, tmp_path, monkeypatch):
    """Two models of one name share no figures."""
    monkeypatch.chdir(tmp_path)
    tensors = {name: x * 0 for name, x in load_file(copy / "model.safetensors").items()}
    save_file(tensors, copy / "model.safetensors")
    other = tmp_path / "other" / "letters"
    shutil.copytree(copy, other)
    words = ["--data", str(letters.parent / "data"), "--sequences", "2", "--json"]
    assert main(["eval", str(model), *words]) == main(["eval", str(other), *words]) == 0
    assert len(list((tmp_path / "results/letters/evals").glob("*.json"))) == 2


def test_export_replaces_an_export_and_nothing_else(letters, copy, tmp_path, capsys):
    before = (copy / "model.safetensors").read_bytes()
    assert main(["export", str(letters), str(copy), "--raw"]) == 0
    assert (copy / "model.safetensors").read_bytes() != before
    (copy / "notes.txt").write_text("mine")
    for out, said in ((copy, "holds other files: got notes.txt"), (copy / "notes.txt", "is a file")):
        assert main(["export", str(letters), str(out)]) == 2
        assert said in capsys.readouterr().err
    assert (copy / "notes.txt").read_text() == "mine"
    assert names(tmp_path) == ["copy"]  # nothing half-written beside it


def test_a_full_disk_leaves_the_old_export(letters, small_disk):
    """One line, the old model intact, nothing beside it."""
    target = small_disk / "m"
    assert run("export", letters, target).returncode == 0
    before = (target / "model.safetensors").read_bytes()
    space = os.statvfs(small_disk)
    (small_disk / "filler").write_bytes(b"x" * max(0, space.f_bavail * space.f_frsize - 30_000))
    done = run("export", letters, target)
    assert done.returncode == 2, done.stdout
    assert done.stderr.count("\n") == 1
    assert (target / "model.safetensors").read_bytes() == before
    assert names(small_disk) == ["filler", "m"]


# ------------------------------------------------------------------------------------------ what is found


def test_names_and_paths(letters, model, tmp_path, monkeypatch):
    """A shipped model by its name, unless a folder of that name holds a model; a separator always means a path."""
    ships = tmp_path / "package"
    shutil.copytree(model, ships / "demo")
    monkeypatch.setattr("unmask.run.places.SHIPPED", ships)
    monkeypatch.chdir(tmp_path)
    assert shipped() == ["demo"]
    assert find_model("demo").folder == ships / "demo"
    (tmp_path / "demo").mkdir()
    assert find_model("demo").folder == ships / "demo"
    with pytest.raises(ValueError, match=r"demo is not a run or a model: got no config.json in it"):
        find_model("./demo")
    shutil.copytree(letters, tmp_path / "demo", dirs_exist_ok=True)
    assert isinstance(find_model("demo"), Run)
    assert isinstance(find_model(letters), Run)
    with pytest.raises(ValueError, match="made by unmask train or unmask export, hub:OWNER/NAME, demo; did you mean"):
        find_model("dem")


# ------------------------------------------------------------------------------- damaged and hostile folders


def _text(name, content):
    return lambda folder: (folder / name).write_text(content)


def _changed(name, **fields):
    def change(folder):
        document = json.loads((folder / name).read_text())
        (folder / name).write_text(json.dumps(document | fields))

    return change


def _network(**fields):
    def change(folder):
        document = json.loads((folder / "config.json").read_text())
        document["network"] |= fields
        (folder / "config.json").write_text(json.dumps(document))

    return change


def _weights(change):
    def rewrite(folder):
        path = folder / "model.safetensors"
        tensors = change(load_file(path))
        save_file(tensors, path)

    return rewrite


def _truncated(folder):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])


def _pickled(folder):
    (folder / "model.safetensors").write_bytes(pickle.dumps({"a": 1}))


def _only_a_pickle(folder):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def _link(name):
    def link(folder):
        outside = folder.parent / "outside"
        shutil.copy(folder / name, outside)
        (folder / name).unlink()
        (folder / name).symlink_to(outside)

    return link


def _pipe(name):
    def pipe(folder):
        (folder / name).unlink()
        os.mkfifo(folder / name)

    return pipe


def _first(tensors):
    return next(iter(tensors))


ELSEWHERE = {"kind": "file", "path": "../../secret.json"}
DAMAGE = {
    "truncated weights": (_truncated, "model.safetensors is damaged"),
    "a pickle by another name": (_pickled, "model.safetensors is damaged"),
    "a pickle": (_only_a_pickle, "no weights that are safe to read: got pytorch_model.bin"),
    "empty weights": (_text("model.safetensors", ""), "model.safetensors is damaged"),
    "a tensor missing": (_weights(lambda t: {k: v for k, v in t.items() if k != _first(t)}), "missing"),
    "an unknown tensor": (_weights(lambda t: t | {"more": torch.zeros(2)}), "more unknown"),
    "another shape": (_weights(lambda t: t | {_first(t): torch.zeros(3)}), "3 instead of"),
    "integers": (_weights(lambda t: t | {_first(t): t[_first(t)].int()}), "integers instead of"),
    "config: not JSON": (_text("config.json", "{"), "config.json is damaged"),
    "config: a list": (_text("config.json", "[1]"), "config.json is damaged"),
    "config: nested": (_text("config.json", "[" * 100_000), "config.json is damaged"),
    "config: not text": (lambda f: (f / "config.json").write_bytes(b"\xff\xfe{"), "config.json is damaged"),
    "config: another program's": (_text("config.json", '{"model_type": "bert"}'), "unknown kind of configuration"),
    "config: unknown field": (_changed("config.json", run_this="rm"), "has no field 'run_this'"),
    "config: an absolute path": (_changed("config.json", data="/etc"), "names a path: got /etc"),
    "config: a parent path": (_changed("config.json", data="../data"), "names a path: got ../data"),
    "config: no path": (_changed("config.json", data=3), "names a path: got 3"),
    "config: words for numbers": (_network(layers="many"), "layers is out of range: got many"),
    "config: a huge network": (_network(width=2**24), "do not fit its configuration"),
    "config: endless layers": (_network(layers=10**9), "describes no valid network: got 1000000000"),
    "config: no network": (_network(width=-4), "allowed:"),
    "vocabulary: not JSON": (_text("vocabulary.json", "<html>"), "vocabulary.json is damaged"),
    "vocabulary: elsewhere": (_text("vocabulary.json", json.dumps(ELSEWHERE)), "unknown kind of vocabulary: got file"),
    "vocabulary: a list": (_text("vocabulary.json", "[]"), "vocabulary.json is damaged"),
    "vocabulary: no symbols": (_text("vocabulary.json", '{"kind": "characters"}'), "vocabulary.json is damaged"),
    "vocabulary: a tokenizer elsewhere": (
        _text("vocabulary.json", '{"kind": "subwords", "tokenizer": "/etc/passwd"}'),
        "this is not a tokenizer",
    ),
    "vocabulary: another size": (_text("vocabulary.json", '{"kind": "bytes", "eos": false}'), "does not fit its netw"),
    "facts: not JSON": (_text("data.json", ""), "data.json is damaged"),
    "facts: no shape": (_changed("data.json", shape=[]), "the shape of a row is wrong"),
    "facts: words": (_changed("data.json", shape=["many"]), "the shape of a row is wrong"),
    "facts: too large": (_changed("data.json", shape=[1 << 40]), "the shape of a row is wrong"),
    "facts: a length that no row has": (_changed("data.json", length_counts=[0, 0]), "the shape of a row is wrong"),
    "facts: endless lengths": (_changed("data.json", length_counts=[10**300]), "the shape of a row is wrong"),
    "facts: many axes": (_changed("data.json", shape=[1] * 99), "the shape of a row is wrong"),
    "facts: a pipe": (_pipe("data.json"), "is incomplete: got no data.json"),
    "weights: a pipe": (_pipe("model.safetensors"), "is incomplete: got no model.safetensors"),
    "facts: unknown": (_changed("data.json", more=[1]), "data.json is damaged"),
    "facts missing": (lambda f: (f / "data.json").unlink(), "is incomplete: got no data.json"),
    **{f"a link: {name}": (_link(name), "leads outside its folder") for name in FILES if name != "README.md"},
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_or_hostile_model_is_one_line(copy, capsys, damage):
    change, said = DAMAGE[damage]
    change(copy)
    assert main(["sample", str(copy)]) == 2
    stderr = capsys.readouterr().err
    assert said in stderr
    assert stderr.count("\n") == 1


@pytest.mark.parametrize("name", FILES)
def test_a_link_is_never_pushed(copy, tmp_path, capsys, name):
    """What it leads to might be anyone's: nothing of it appears in the target."""
    _link(name)(copy)
    assert main(["push", str(copy), f"file:{tmp_path}/pushed"]) == 2
    assert f"{name} leads outside its folder" in capsys.readouterr().err
    assert not (tmp_path / "pushed").exists()


def test_files_of_ones_own_are_not_replaced(model, tmp_path, capsys):
    """A folder is an export if it holds all of one; names alone, such as README.md, do not make it one."""
    for number, own in enumerate((["README.md"], ["README.md", "config.json"], ["model.safetensors", "config.json"])):
        folder = tmp_path / f"own-{number}"
        folder.mkdir()
        for name in own:
            (folder / name).write_text("precious")
        for words in (["export", str(model), str(folder)], ["push", str(model), f"file:{folder}"]):
            assert main(words) == 2
            assert "holds other files" in capsys.readouterr().err
        assert {path.read_text() for path in folder.iterdir()} == {"precious"}
    (Path(shutil.copytree(model, tmp_path / "bare")) / "README.md").unlink()
    assert main(["export", str(model), str(tmp_path / "bare")]) == 0


def test_a_damaged_run_is_one_line(letters, tmp_path, capsys):
    """The same checks where the weights come from checkpoints, whose hashes a hostile hand can mend."""
    folder = Path(shutil.copytree(letters, tmp_path / "run"))
    (checkpoint,) = (folder / "checkpoints").glob("step-*300")
    for other in (folder / "checkpoints").glob("step-*"):
        if other != checkpoint:
            shutil.rmtree(other)
    state = json.loads((checkpoint / "state.json").read_text())
    tensors = load_file(checkpoint / "average.safetensors")
    save_file({**tensors, "more": torch.zeros(1)}, checkpoint / "average.safetensors")
    for content, said in ((None, "more unknown"), (b"\x80\x04}", "is damaged")):
        if content is not None:
            (checkpoint / "average.safetensors").write_bytes(content)
        state["sha256"]["average.safetensors"] = digest(checkpoint / "average.safetensors")
        (checkpoint / "state.json").write_text(json.dumps(state))
        assert main(["sample", str(folder)]) == 2
        stderr = capsys.readouterr().err
        assert said in stderr
        assert stderr.count("\n") == 1
    (checkpoint / "state.json").write_text("[]")
    assert main(["sample", str(folder)]) == 2
    assert "no other one is intact" in capsys.readouterr().err


# -------------------------------------------------------------------------------------------- the hub


@pytest.fixture
def hub(tmp_path):
    """The real client, a stand-in for the hub on this machine, an empty cache."""
    with serving(token="a-token") as server:  # noqa: S106
        environment = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
        environment |= {"HF_ENDPOINT": server.address, "HF_HOME": str(tmp_path / "cache"), "HF_TOKEN": "a-token"}
        environment |= {"HF_HUB_DISABLE_XET": "1", "NO_PROXY": "127.0.0.1"}
        server.environment = environment
        yield server


def test_pushed_and_fetched(letters, hub, tmp_path):
    """A run is exported on the way; what comes back is the model; a second time it needs no network."""
    words = ("--private", "--message", "first", "--json")
    done = run("push", letters, "someone/letters", *words, env=hub.environment)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["model"] == "hub:someone/letters"
    assert sorted(hub.repos["someone/letters"]) == FILES
    assert hub.private["someone/letters"]
    assert hub.messages == ["first"]
    assert "unmask sample hub:someone/letters" in hub.repos["someone/letters"]["README.md"].decode()
    hub.repos["someone/letters"]["evil.py"] = b"import os"  # never fetched
    sample = ("sample", "hub:someone/letters", "-n", 2, "--steps", 4, "--json")
    done = run(*sample, env=hub.environment)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["texts"] == unmask.load(letters).sample(2, steps=4)
    assert not list((tmp_path / "cache").rglob("evil.py"))
    hub.repos.clear()
    assert run(*sample, env=hub.environment | {"HF_HUB_OFFLINE": "1"}).returncode == 0


def test_what_the_hub_may_object_is_one_line(model, hub):
    hub.repos["someone/other"] = {"README.md": b"# no model"}
    no_token = {name: value for name, value in hub.environment.items() if name != "HF_TOKEN"}
    nobody = hub.environment | {"HF_ENDPOINT": "http://127.0.0.1:9"}
    offline = hub.environment | {"HF_HUB_OFFLINE": "1"}
    push, sample = ["push", model, "someone/m"], ["sample", "hub:someone/m"]
    away = "the hub cannot be reached"
    names = {
        "this is not a repository name: got no name": ["push", model, "no name"],
        "allowed: OWNER/NAME": ["push", model, "alone"],
        "someone/m is not on the hub": sample,
        "is not an unmask model: got no config.json": ["sample", "hub:someone/other"],
    }
    for environment, commands, said in (
        (no_token, [push], ["HF_TOKEN"]),
        (nobody, [push, sample], [away, away]),
        (offline, [push, sample], [away, away]),
        (hub.environment, names.values(), names),
    ):
        done = processes.run(several(*commands), capture_output=True, text=True, check=True, env=environment)
        assert done.stdout.count("exit 2") == len(said)
        lines = done.stderr.splitlines()
        assert len(lines) == len(said), done.stderr
        assert all(words in line for words, line in zip(said, lines, strict=True)), done.stderr


def test_pushed_to_a_folder(letters, model, tmp_path, capsys):
    for source, target in ((letters, f"file:{tmp_path}/a"), (model, str(tmp_path / "b"))):
        assert main(["push", str(source), target]) == 0
    assert names(tmp_path / "a") == names(tmp_path / "b") == FILES
    assert (tmp_path / "b" / "README.md").read_bytes() == (model / "README.md").read_bytes()
    assert unmask.load(tmp_path / "a").sample(1, steps=2) == unmask.load(letters).sample(1, steps=2)
    capsys.readouterr()
    assert main(["push", str(model), f"file:{tmp_path}/c", "--private"]) == 2
    assert "a folder has no visibility" in capsys.readouterr().err
    assert not (tmp_path / "c").exists()
