"""From each kind of source to a trained model: real files in their own format, prepared, trained on, sampled from."""

import gzip
import io
import json
import struct
import tarfile
import zipfile
from dataclasses import replace

import numpy as np
import pytest
import torch

import unmask
from unmask.data import Plan, Reading, prepare
from unmask.data.sources import KINDS, NAMES, named
from unmask.run import default_config, train

RNG = np.random.default_rng(0)
TEXT = "".join(RNG.choice(list("abc d"), size=3000))
LINES = ["".join(RNG.choice(list("CNO"), size=n)) for n in RNG.integers(2, 7, size=60)]
PIXELS = RNG.integers(0, 256, (40, 4, 4, 3), dtype=np.uint8)


def text(folder):
    (folder / "a.txt").write_text(TEXT)
    return folder / "a.txt"


def texts(folder):
    (folder / "texts").mkdir()
    for i in range(30):
        (folder / "texts" / f"{i}.txt").write_text(TEXT[i * 90 : (i + 1) * 90])
    return folder / "texts"


def lines(folder):
    (folder / "a.smi").write_text("\n".join(LINES))
    return folder / "a.smi"


def fasta(folder):
    (folder / "a.fasta").write_text("".join(f">{i}\n{line}\n" for i, line in enumerate(LINES)))
    return folder / "a.fasta"


def jsonl(folder):
    (folder / "a.jsonl").write_text("\n".join(json.dumps({"text": TEXT[i : i + 80]}) for i in range(0, 2400, 80)))
    return folder / "a.jsonl"


def table(folder):
    (folder / "a.csv").write_text("text,label\n" + "\n".join(f"{line},{i % 2}" for i, line in enumerate(LINES)))
    return folder / "a.csv"


def parquet(folder):
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"text": [TEXT[i : i + 80] for i in range(0, 2400, 80)]}), folder / "a.parquet")
    return folder / "a.parquet"


def array(folder):
    np.save(folder / "a.npy", RNG.integers(0, 9, (40, 5)))
    return folder / "a.npy"


def images(folder):
    from PIL import Image

    for name in ("cats", "dogs"):
        (folder / "images" / name).mkdir(parents=True)
        for i in range(20):
            Image.fromarray(PIXELS[i]).save(folder / "images" / name / f"{i}.png")
    return folder / "images"


def mnist(folder):
    grey, labels = PIXELS[..., 0], (np.arange(40) % 10).astype(np.uint8)
    for prefix in ("train", "t10k"):
        for name, values, kind in (("images-idx3", grey, 3), ("labels-idx1", labels, 1)):
            header = struct.pack(f">HBB{kind}I", 0, 8, kind, *values.shape)
            with gzip.open(folder / f"{prefix}-{name}-ubyte.gz", "wb") as file:
                file.write(header + values.tobytes())
    return folder


def cifar10(folder):
    whole = RNG.integers(0, 256, (20, 3072), dtype=np.uint8)
    rows = np.concatenate([np.arange(20, dtype=np.uint8)[:, None] % 10, whole], 1).tobytes()
    with tarfile.open(folder / "cifar-10-binary.tar.gz", "w:gz") as archive:
        names = [*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"]
        for name in names:
            member = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            member.size = len(rows)
            archive.addfile(member, io.BytesIO(rows))
    return folder / "cifar-10-binary.tar.gz"


def imagenet64(folder):
    data, labels = RNG.integers(0, 256, (12, 3 * 64 * 64), dtype=np.uint8), np.arange(1, 13)
    np.savez(folder / "train_data_batch_1.npz", data=data, labels=labels)
    np.savez(folder / "val_data.npz", data=data[:4], labels=labels[:4])
    return folder


MAKERS = {
    "text": text,
    "text, a folder": texts,
    "lines": lines,
    "fasta": fasta,
    "jsonl": jsonl,
    "csv": table,
    "parquet": parquet,
    "array": array,
    "images": images,
    "mnist": mnist,
    "cifar10": cifar10,
    "imagenet64": imagenet64,
}


def one_step(data, tmp_path):
    config = default_config(str(data))
    if hasattr(config.network, "blocks"):
        config = replace(config, network=replace(config.network, blocks=1, width=16, groups=4))
    else:
        config = replace(config, network=replace(config.network, layers=1, heads=2, width=16))
    quick = {"steps": 1, "batch_size": 2, "validation_sequences": 2, "preview": 1, "preview_steps": 2}
    config = replace(config, training=replace(config.training, **quick))
    report = list(train(config, tmp_path / "run", torch.device("cpu")))[-1]
    assert np.isfinite(report.loss)
    model = unmask.load(tmp_path / "run")
    assert model.sample_tokens(1, steps=2).tokens.shape == (1, *model.facts.shape)
    return model


@pytest.mark.parametrize("name", MAKERS)
def test_every_kind_of_source_trains(name, tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    kind = name.split(",")[0]
    plan = Plan(str(MAKERS[name](source)), kind, length=None if kind in ("lines", "fasta", "csv") else 32)
    if kind in ("array", "images", "mnist", "cifar10", "imagenet64"):
        plan = replace(plan, length=None)
    prepare(plan, tmp_path / "data")
    model = one_step(tmp_path / "data", tmp_path)
    assert (model.network.classes > 0) == (kind in ("images", "mnist", "cifar10", "imagenet64"))


def test_text8_trains(tmp_path, monkeypatch):
    """The official zip in miniature: its md5 and sizes are those of a small one."""
    import hashlib

    small = TEXT.encode()
    with zipfile.ZipFile(tmp_path / "text8.zip", "w") as archive:
        archive.writestr("text8", small)
    known = (hashlib.md5(small).hexdigest(), {"train": 2600, "valid": 200, "test": 200})  # noqa: S324
    monkeypatch.setattr(named.text8, "__defaults__", known)
    plan = Plan(str(tmp_path / "text8.zip"), "text8", Reading(cache=tmp_path / "cache"), length=32)
    prepare(plan, tmp_path / "data")
    assert one_step(tmp_path / "data", tmp_path).vocabulary.size == len(set(TEXT))


def test_a_hub_data_set_trains(tmp_path):
    """Through `datasets`, from a local folder in the hub's form."""
    (tmp_path / "set").mkdir()
    jsonl(tmp_path / "set")
    prepare(Plan(f"hub:{tmp_path / 'set'}", length=32), tmp_path / "data")
    assert one_step(tmp_path / "data", tmp_path).vocabulary.size == len(set(TEXT)) + 1  # and the end of text


def test_no_kind_is_forgotten():
    assert {name.split(",")[0] for name in MAKERS} | {"text8"} == set(KINDS)
    assert set(NAMES) == {"text8", "mnist", "cifar10", "shakespeare", "moses", "openwebtext", "fineweb-edu"}
