"""Models that take seconds to train: running text, pictures with classes, rows of different length, subwords."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from unmask.data import Plan, prepare
from unmask.run import default_config, train
from unmask.training import OptimizerConfig, RateConfig


def trained(data, folder, method="md4", width=16, layers=1, **training):
    """A tiny model, a few steps old."""
    config = default_config(str(data), method=method)
    small = (
        {"blocks": 1, "width": width, "groups": 4}
        if hasattr(config.network, "blocks")
        else {"layers": layers, "heads": 2, "width": width}
    )
    how = {"optimizer": OptimizerConfig(rate=1e-3), "rate": RateConfig()}
    quick = {"steps": 3, "batch_size": 4, "validation_sequences": 2, "preview": 0} | how | training
    config = replace(config, network=replace(config.network, **small), training=replace(config.training, **quick))
    list(train(config, folder, torch.device("cpu")))
    return folder


@pytest.fixture(scope="session")
def letters(tmp_path_factory):
    """Running text: every second character is determined by the one before.

    Trained until that is known surely on any machine: with five seeds every capital had a chance of 0.99 or more.
    """
    folder = tmp_path_factory.mktemp("letters")
    text = "".join(c + c.upper() for c in np.random.default_rng(0).choice(list("abcd"), size=4000))
    (folder / "a.txt").write_text(text)
    prepare(Plan(str(folder / "a.txt"), length=16), folder / "data")
    how = {"steps": 300, "batch_size": 32, "average": 0.9, "optimizer": OptimizerConfig("muon", 1e-2, muon_rate=1e-2)}
    return trained(folder / "data", folder / "run", width=32, layers=2, **how)


@pytest.fixture(scope="session")
def pictures(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pictures")
    images = np.random.default_rng(0).integers(0, 256, (60, 4, 4), dtype=np.uint8)
    labels = np.arange(60, dtype=np.uint8) % 3
    np.savez(folder / "a.npz", train_images=images, train_labels=labels, test_images=images[:9], test_labels=labels[:9])
    prepare(Plan(str(folder / "a.npz")), folder / "data")
    return trained(folder / "data", folder / "run")


@pytest.fixture(scope="session")
def molecules(tmp_path_factory):
    folder = tmp_path_factory.mktemp("molecules")
    (folder / "a.smi").write_text("\n".join(["CO", "CCCC", "CCO"] * 40))
    prepare(Plan(str(folder / "a.smi")), folder / "data")
    return trained(folder / "data", folder / "run")


@pytest.fixture(scope="session")
def subwords(tmp_path_factory):
    folder = tmp_path_factory.mktemp("subwords")
    (folder / "a.txt").write_text("the cat sat on the mat and the dog sat on the log. " * 60)
    prepare(Plan(str(folder / "a.txt"), vocabulary="bpe:300", length=16), folder / "data")
    return trained(folder / "data", folder / "run")
