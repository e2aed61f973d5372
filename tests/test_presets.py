"""Every preset: the paper's sizes in full on the meta device, one step in miniature on real files of its kind."""

import dataclasses
import json
from dataclasses import replace

import numpy as np
import pytest
import torch

import unmask
from benchmarks.record import RESULTS
from unmask import presets
from unmask.baselines import BASELINES
from unmask.configs import from_json
from unmask.data import Plan, Reading, prepare
from unmask.networks import TransformerConfig, UNetConfig, UViTConfig
from unmask.run import SIZES, RunConfig, adapted_to_data, default_config, train, with_method
from unmask.training import GenMD4Config, MD4Config

MILLIONS = {  # GPT-2's layers, heads and width make 85, 302 and 708 without embeddings; the condition adds 7, 20 and 41
    "text8": 92.3,
    "text8-genmd4": 92.3,
    "text8-10min": 49.2,
    "text8-characters-10min": 39.3,
    "openwebtext-small": 92.3,
    "openwebtext-small-genmd4": 92.3,
    "openwebtext-medium": 322.9,
    "fineweb-edu-small": 92.3,
    "fineweb-edu-medium": 322.9,
    "fineweb-edu-large": 749.7,
    "cifar10": 28.0,
    "imagenet64": 198.0,
    "imagenet64-samples": 227.2,
    "imagenet64-classes": 227.2,
    "characters": 1.0,
    "mnist": 1.0,
    "molecules": 3.2,
    **{f"text8-{method}": 92.3 for method in BASELINES},
    **{f"text8-{method}": 85.0 for method in ("ar", "block")},  # without a time to see
}
every_preset = pytest.mark.parametrize("name", presets.PRESETS)


def without_embeddings(network):
    spared = sum(m.weight.numel() for m in network.modules() if isinstance(m, torch.nn.Embedding))
    output = getattr(network, "output", None)  # none of its own where one table is both
    spared += output.weight.numel() if output is not None else 0
    return (sum(p.numel() for p in network.parameters()) - spared) / 1e6


@every_preset
def test_full_size(name):
    """Built on the meta device. The paper states 28 M and 198 M for its image models."""
    with torch.device("meta"):
        network = presets.find(name).config.network.build()
    assert without_embeddings(network) == pytest.approx(MILLIONS[name], rel=0.01)


@pytest.mark.parametrize("size", SIZES)
def test_sizes_are_what_they_say(size):
    layers, heads, width = SIZES[size]
    with torch.device("meta"):
        network = TransformerConfig(27, layers, heads, width).build()
    named = float(size[:-1]) * (1000 if size.endswith("b") else 1)
    assert without_embeddings(network) == pytest.approx(named, rel=0.1)


def miniature(config):
    """The same kind of network, method and training, as small as it goes."""
    network = config.network
    if isinstance(network, TransformerConfig):
        network = replace(network, layers=1, heads=2, width=16, positions=min(network.positions, 57))
    elif isinstance(network, UNetConfig):
        network = replace(network, blocks=1, width=16, groups=4)
    elif isinstance(network, UViTConfig):
        network = replace(network, blocks=1, width=8, groups=4, layers=1, heads=2, transformer_width=16)
    steps = {"steps": 1, "batch_size": 4, "validation_sequences": 2, "preview": 1, "preview_steps": 2}
    return replace(config, network=network, training=replace(config.training, **steps))


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """Small files in the form of each data set, by the name a plan gives it."""
    folder = tmp_path_factory.mktemp("sources")
    rng = np.random.default_rng(0)
    letters = rng.choice(list("abcdefghijklmnopqrstuvwxyz "), size=12_000)
    (folder / "text.txt").write_text("".join(letters))
    (folder / "moses.csv").write_text("SMILES\n" + "\n".join(["CCO", "c1ccccc1", "CC(=O)N"] * 20))
    for name, shape in (("colour", (40, 8, 8, 3)), ("grey", (40, 8, 8))):
        images = rng.integers(0, 256, shape, dtype=np.uint8)
        labels = (np.arange(40) % (10 if name == "grey" else 1000)).astype(np.int64)
        arrays = {"train_images": images, "train_labels": labels, "test_images": images, "test_labels": labels}
        np.savez(folder / f"{name}.npz", **arrays)
    text = str(folder / "text.txt")
    return {
        "moses": (str(folder / "moses.csv"), {"reading": Reading(column="SMILES")}),
        "mnist": (str(folder / "grey.npz"), {}),
        "cifar10": (str(folder / "colour.npz"), {}),
        "imagenet64": (str(folder / "colour.npz"), {"kind": None}),
        **dict.fromkeys(("text8", "openwebtext", "fineweb-edu", "shakespeare"), (text, {"vocabulary": None})),
    }


@every_preset
def test_one_step_in_miniature(name, sources, tmp_path):
    """The preset's own plan and recipe on files in the form of its data; then a sample from what was saved."""
    preset = presets.find(name)
    source, changes = sources[preset.plan.source]
    plan = replace(preset.plan, source=source, valid=0.05, **changes)
    prepare(plan, tmp_path / "data")
    config = miniature(adapted_to_data(preset.config, str(tmp_path / "data")))
    reports = list(train(config, tmp_path / "run", torch.device("cpu")))
    assert reports[-1].loss > 0
    model = unmask.load(tmp_path / "run")
    tokens = model.sample_tokens(1, steps=2).tokens
    assert tokens.shape == (1, *model.facts.shape)
    assert tokens.max() < model.network.vocab_size


def test_the_papers_numbers():
    """App. J, setting by setting."""
    text8, owt, cifar = (presets.find(n).config for n in ("text8", "openwebtext-medium", "cifar10"))
    assert (text8.training.steps, text8.training.batch_size) == (1_000_000, 512)
    assert (text8.training.optimizer.rate, text8.training.optimizer.weight_decay) == (3e-4, 0.03)
    assert text8.training.rate.warmup == 2000
    assert (text8.network.dropout, owt.network.dropout) == (0.05, 0.02)
    assert text8.method == MD4Config(shift=1e-4, masks="independent")
    assert text8.training.average == cifar.training.average == 0.9999
    assert (cifar.training.steps, cifar.training.batch_size) == (2_000_000, 256)
    assert (cifar.training.optimizer.rate, cifar.training.optimizer.weight_decay) == (4e-4, 0.01)
    imagenet = presets.find("imagenet64-classes").config
    assert (imagenet.method.schedule, imagenet.network.conditioning.classes) == ("cosine", 1000)
    assert isinstance(presets.find("text8-genmd4").config.method, GenMD4Config)
    assert presets.find("text8-genmd4").config.network.conditioning.time


@pytest.mark.parametrize(
    ("name", "record"), [("text8-10min", "subwords-values-0"), ("text8-characters-10min", "chars-10min-0")]
)
def test_the_records_are_what_was_measured(name, record):
    """All that decides the result, but for the number of steps, which a clock decided."""
    measured = json.loads((RESULTS / "speedrun" / f"{record}.json").read_text())
    config, recorded = presets.find(name).config, from_json(RunConfig, measured["config"])
    watched = ("save_every", "validate_every", "validation_sequences", "preview", "preview_steps")
    same = {name: getattr(recorded.training, name) for name in watched} | {"steps": measured["steps"]}
    assert config.training.steps == pytest.approx(measured["steps"], rel=1e-3)
    assert replace(config, data=recorded.data, training=replace(config.training, **same)) == recorded


def test_methods_can_be_exchanged():
    config = presets.find("characters").config
    learned = with_method(config, "genmd4")
    assert learned.network.conditioning.time
    assert with_method(learned, "genmd4") is learned
    with pytest.raises(ValueError, match="unknown method: got md5, allowed: md4, genmd4"):
        with_method(config, "md5")


def test_unknown_names(tmp_path):
    with pytest.raises(ValueError, match=r"unknown preset: got tex8, .* did you mean text8"):
        presets.find("tex8")
    (tmp_path / "a.txt").write_text("abcd" * 200)
    prepare(Plan(str(tmp_path / "a.txt"), length=16), tmp_path / "data")
    with pytest.raises(ValueError, match="no network of this size for this data: got 2m, allowed: 1m, 3m"):
        default_config(str(tmp_path / "data"), "2m")


def test_presets_are_configurations_all_the_way_down():
    """Frozen, and equal each time they are made."""
    for make in presets.PRESETS.values():
        assert make() == make()
        with pytest.raises(dataclasses.FrozenInstanceError):
            make().config.data = "elsewhere"
