"""Every kind of source, in its true format in miniature, through preparation and back."""

import bz2
import csv
import gzip
import io
import json
import lzma
import sys
import tarfile
import zipfile
from dataclasses import replace

import numpy as np
import pytest

from unmask.data import Dataset, Plan, Reading, files, prepare
from unmask.data.sources import KINDS, find_source, named

RNG = np.random.default_rng(0)
WORDS = ["".join(RNG.choice(list("abcde "), size=n)) + "z" for n in RNG.integers(1, 30, size=300)]


def prepared(tmp_path, source, **options):
    reading = Reading(**{k: options.pop(k) for k in list(options) if k in Reading.__dataclass_fields__})
    out = tmp_path / "prepared"
    prepare(Plan(str(source), reading=reading, **options), out)
    return Dataset(out)


def documents(dataset):
    """All documents of all splits, decoded."""
    found = []
    for name in dataset.splits:
        split = dataset.split(name, length=None)
        if dataset.manifest.rows:
            for i in range(len(split)):
                batch = split.read(np.array([i]))
                tokens = batch.tokens[0] if batch.valid is None else batch.tokens[0][batch.valid[0]]
                found.append(dataset.vocabulary.decode(tokens))
        else:
            tokens, eos = split.stream(0, split.tokens), dataset.vocabulary.eos_id
            ends = np.flatnonzero(tokens == eos) if eos is not None else []
            found += [dataset.vocabulary.decode(t) for t in np.split(tokens, np.asarray(ends) + 1)[: len(ends) or None]]
    return found


def test_one_text_file_is_one_running_text(tmp_path):
    text = "größe " * 1000
    (tmp_path / "a.txt").write_text(text)
    dataset = prepared(tmp_path, tmp_path / "a.txt", length=16)
    assert "".join(documents(dataset)) == text
    assert dataset.splits == ["train", "valid", "test"]
    assert dataset.vocabulary.eos_id is None
    sizes = [dataset.manifest.splits[s].tokens for s in dataset.splits]
    assert sizes == [5400, 300, 300]


@pytest.mark.parametrize("where", ["folder", "pattern"])
def test_a_folder_of_text_files_is_one_document_each(tmp_path, where):
    folder = tmp_path / "texts"
    (folder / "deep").mkdir(parents=True)
    for i, word in enumerate(WORDS):
        (folder / ("deep" if i % 2 else ".") / f"{i:04d}.txt").write_text(word)
    source = folder if where == "folder" else folder / "**" / "*.txt"
    dataset = prepared(tmp_path, source, length=16)
    assert sorted(documents(dataset)) == sorted(WORDS)
    assert dataset.vocabulary.eos_id is not None


@pytest.mark.parametrize(("suffix", "opener"), [("", open), (".gz", gzip.open), (".xz", lzma.open), (".bz2", bz2.open)])
def test_lines_and_compression(tmp_path, suffix, opener):
    path = tmp_path / f"molecules.smi{suffix}"
    with opener(path, "wb") as file:
        file.write("\n".join(WORDS).encode())
    dataset = prepared(tmp_path, path)
    assert sorted(documents(dataset)) == sorted(WORDS)
    assert dataset.manifest.length == max(map(len, WORDS))


def test_json_lines_with_labels(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps({"body": w, "mood": "good" if "a" in w else "bad"}) + "\n" for w in WORDS))
    dataset = prepared(tmp_path, path, column="body", label_column="mood", rows=True)
    assert dataset.manifest.label_names == ["bad", "good"]
    for name in dataset.splits:
        split = dataset.split(name)
        batch = split.read(np.arange(len(split)))
        for tokens, valid, label in zip(batch.tokens, batch.valid, batch.labels, strict=True):
            assert ("a" in dataset.vocabulary.decode(tokens[valid])) == label


def test_csv_and_tsv(tmp_path):
    rows = [w + ('\n"quoted", ' if i % 7 == 0 else "") for i, w in enumerate(WORDS)]
    for suffix, delimiter in ((".csv", ","), (".tsv", "\t")):
        with (tmp_path / f"a{suffix}").open("w", newline="") as file:
            writer = csv.writer(file, delimiter=delimiter)
            writer.writerows([["SMILES", "n"], *[[r, i] for i, r in enumerate(rows)]])
        out = tmp_path / suffix
        out.mkdir()
        assert sorted(documents(prepared(out, tmp_path / f"a{suffix}", column="SMILES"))) == sorted(rows)


def test_parquet(tmp_path):
    import pyarrow as pa
    from pyarrow import parquet

    table = pa.table({"text": WORDS, "label": list(range(len(WORDS)))})
    parquet.write_table(table, tmp_path / "a.parquet", row_group_size=64)
    assert len(find_source(str(tmp_path / "a.parquet")).parts) == 5
    assert sorted(documents(prepared(tmp_path, tmp_path / "a.parquet", length=8))) == sorted(WORDS)


def test_fasta(tmp_path):
    proteins = ["".join(RNG.choice(list("ACDEFG"), size=n)) for n in RNG.integers(1, 200, size=60)]
    wrapped = [
        f">record {i} x\n" + "\n".join(p[k : k + 60] for k in range(0, len(p), 60)) for i, p in enumerate(proteins)
    ]
    (tmp_path / "a.fasta").write_text("\n".join(wrapped) + "\n")
    assert sorted(documents(prepared(tmp_path, tmp_path / "a.fasta"))) == sorted(proteins)


@pytest.mark.parametrize("start", [0, 7])
def test_a_record_of_many_blocks_is_searched_once(tmp_path, start):
    """The time is linear in the length of a record, which may be a chromosome; each byte is searched about once."""
    path, searched = tmp_path / "long.fasta", []
    path.write_bytes(b">first\n" + b"ACGT" * (1 << 20) + b"\n>second\nAC\n")

    def cut(data):
        searched.append(len(data))
        return files.before_record(data)

    found = list(files.read_range(path, start, -1, cut))
    assert b"".join(found) == (b">second\nAC\n" if start else path.read_bytes())
    assert found[-1] == b">second\nAC\n"
    assert sum(searched) < 1.1 * path.stat().st_size


def test_ranges_of_a_large_file_fit_together(tmp_path, monkeypatch):
    """With parts of a few hundred bytes the same documents come out, in order."""
    from unmask.data.sources import text as text_sources

    lines = [w * 3 for w in WORDS]
    (tmp_path / "a.smi").write_text("\n".join(lines) + "\n")
    (tmp_path / "b.fasta").write_text("".join(f">x\n{w.replace(' ', 'a')}\n" for w in lines))
    (tmp_path / "c.txt").write_text(" ".join(lines) + "ü" * 2000)
    monkeypatch.setattr(text_sources, "PART", 300)
    parts = find_source(str(tmp_path / "a.smi")).parts
    assert len(parts) > 20
    assert [p.content.decode() for part in parts for p in part.pieces()] == lines
    parts = find_source(str(tmp_path / "b.fasta")).parts
    assert [p.content.decode() for part in parts for p in part.pieces()] == [w.replace(" ", "a") for w in lines]
    parts = find_source(str(tmp_path / "c.txt")).parts
    pieces = [p for part in parts for p in part.pieces()]
    assert b"".join(p.content for p in pieces) == (tmp_path / "c.txt").read_bytes()
    assert [p.ends for p in pieces] == [False] * (len(pieces) - 1) + [True]
    assert all(p.content.decode() for p in pieces)  # every piece is complete UTF-8


@pytest.mark.parametrize("shape", [(40, 7), (40, 4, 5), (40, 2, 3, 2)])
def test_arrays_of_any_shape(tmp_path, shape):
    array = RNG.integers(0, 9, size=shape)
    np.save(tmp_path / "a.npy", array)
    dataset = prepared(tmp_path, tmp_path / "a.npy", test=0.2)
    assert dataset.manifest.shape == list(shape[1:])
    assert dataset.vocabulary.size == 9
    found = np.concatenate([dataset.split(n).read(np.arange(len(dataset.split(n)))).tokens for n in dataset.splits])
    assert sorted(found.reshape(40, -1).tolist()) == sorted(array.reshape(40, -1).tolist())


@pytest.mark.parametrize(
    ("names", "splits"),
    [
        (("train.csv", "test.csv"), ["train", "test"]),
        (("wiki.train.csv", "wiki.val.csv", "wiki.test.csv"), ["train", "valid", "test"]),
        (("train_a.csv", "train_b.csv", "dev.csv"), ["train", "valid"]),
        (("train.csv", "other.csv"), ["train", "valid", "test"]),
        (("trainers.csv", "tests.csv"), ["train", "valid", "test"]),
    ],
)
def test_names_of_files_tell_the_split(tmp_path, names, splits):
    """If all of them do; otherwise documents are held out as usual."""
    for number, name in enumerate(names):
        (tmp_path / "files").mkdir(exist_ok=True)
        (tmp_path / "files" / name).write_bytes(("text\n" + f"{'abc'[number]}\n" * 50).encode())
    prepare(Plan(str(tmp_path / "files")), tmp_path / "data")
    dataset = Dataset(tmp_path / "data")
    assert dataset.splits == splits
    if len(names) == len(splits):
        for split in splits:
            assert len(set(dataset.split(split).stream(0, 50).tolist())) == 1  # one file each


def test_running_texts_by_split(tmp_path):
    (tmp_path / "text").mkdir()
    for name, text in {"train": "a" * 600, "valid": "b" * 300, "test": "c" * 300}.items():
        (tmp_path / "text" / f"{name}.txt").write_text(text)
    prepare(Plan(str(tmp_path / "text"), length=100), tmp_path / "data")
    dataset = Dataset(tmp_path / "data")
    for split, letter in (("train", "a"), ("valid", "b"), ("test", "c")):
        found = dataset.split(split)
        assert set(dataset.vocabulary.decode(found.stream(0, found.tokens))) == {letter}


def test_npz_with_splits_and_labels(tmp_path):
    images = {s: RNG.integers(0, 256, size=(n, 4, 4, 3), dtype=np.uint8) for s, n in (("train", 30), ("test", 10))}
    labels = {s: RNG.integers(0, 3, size=len(x), dtype=np.uint8) for s, x in images.items()}
    arrays = {f"{s}_images": images[s] for s in images} | {f"{s}_labels": labels[s] for s in labels}
    for i, save in enumerate((np.savez, np.savez_compressed)):
        folder = tmp_path / str(i)
        folder.mkdir()
        save(folder / "a.npz", **arrays)
        dataset = prepared(folder, folder / "a.npz")
        for s in images:
            batch = dataset.split(s).read(np.arange(len(images[s])))
            assert np.array_equal(batch.tokens, images[s])
            assert np.array_equal(batch.labels, labels[s])


def test_validation_rows_come_from_the_training_split(tmp_path):
    """If the source has none: a twentieth of train, evenly spread; test stays as it is."""
    rng = np.random.default_rng(0)
    images = {name: rng.integers(0, 256, (count, 2, 2), np.uint8) for name, count in (("train", 400), ("test", 30))}
    labels = {f"{name}_labels": part[:, 0, 0] % 5 for name, part in images.items()}
    np.savez(tmp_path / "a.npz", **{f"{name}_images": part for name, part in images.items()}, **labels)
    kept = prepared(tmp_path / "kept", tmp_path / "a.npz")
    assert kept.splits == ["train", "test"]
    assert kept.manifest.plan["valid"] == 0
    dataset = prepared(tmp_path, tmp_path / "a.npz", valid=0.05)
    batches = {name: dataset.split(name).read(np.arange(len(dataset.split(name)))) for name in dataset.splits}
    rows = {name: batch.tokens.astype(np.uint8) for name, batch in batches.items()}
    assert len(rows["valid"]) == pytest.approx(20, abs=2)
    assert np.array_equal(rows["test"], images["test"])
    assert all(np.array_equal(b.labels, b.tokens[:, 0, 0] % 5) for b in batches.values())
    assert sorted(map(bytes, [*rows["train"], *rows["valid"]])) == sorted(map(bytes, images["train"]))
    with pytest.raises(ValueError, match=r"the source has its own split test: got 0\.1, allowed: no share for it"):
        prepared(tmp_path / "other", tmp_path / "a.npz", test=0.1)


@pytest.mark.parametrize("name", ["val", "validation", "dev"])
def test_image_folder_with_classes(tmp_path, name):
    from PIL import Image as image  # noqa: N813

    colours = {"red": (255, 0, 0), "blue": (0, 0, 255)}
    for split, count in (("train", 6), (name, 2)):
        for name, colour in colours.items():
            folder = tmp_path / "pictures" / split / name
            folder.mkdir(parents=True)
            for i in range(count):
                image.new("RGB", (20 + i, 10), colour).save(folder / f"{i}.png")
    dataset = prepared(tmp_path, tmp_path / "pictures", image_size=8)
    assert dataset.splits == ["train", "valid"]
    assert dataset.manifest.label_names == ["blue", "red"]
    batch = dataset.split("train").read(np.arange(12))
    assert batch.tokens.shape == (12, 8, 8, 3)
    for tokens, label in zip(batch.tokens, batch.labels, strict=True):
        assert (tokens == colours[dataset.manifest.label_names[label]]).all()


def idx(array):
    head = bytes([0, 0, 8, array.ndim]) + b"".join(n.to_bytes(4) for n in array.shape)
    return head + array.tobytes()


def test_mnist_files(tmp_path):
    folder = tmp_path / "mnist"
    folder.mkdir()
    data = {}
    for prefix, split, n in (("train", "train", 20), ("t10k", "test", 5)):
        data[split] = RNG.integers(0, 256, (n, 28, 28), np.uint8), RNG.integers(0, 10, n, np.uint8)
        (folder / f"{prefix}-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(data[split][0])))
        (folder / f"{prefix}-labels-idx1-ubyte").write_bytes(idx(data[split][1]))
    dataset = prepared(tmp_path, folder)
    for split, (images, labels) in data.items():
        batch = dataset.split(split).read(np.arange(len(images)))
        assert np.array_equal(batch.tokens, images)
        assert np.array_equal(batch.labels, labels)
        assert batch.valid is None


def test_cifar10_archive_and_folder(tmp_path):
    batches = {
        name: RNG.integers(0, 10, (4, 3073), dtype=np.uint8)
        for name in ("data_batch_1.bin", "data_batch_2.bin", "test_batch.bin")
    }
    with tarfile.open(tmp_path / "cifar-10-binary.tar.gz", "w:gz") as archive:
        for name, records in batches.items():
            info = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            info.size = records.nbytes
            archive.addfile(info, io.BytesIO(records.tobytes()))
    with tarfile.open(tmp_path / "cifar-10-binary.tar.gz") as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    for number, where in enumerate((tmp_path / "cifar-10-binary.tar.gz", tmp_path / "unpacked")):
        out = tmp_path / str(number)
        out.mkdir()
        dataset = prepared(out, where)
        train = np.concatenate([batches["data_batch_1.bin"], batches["data_batch_2.bin"]])
        batch = dataset.split("train").read(np.arange(8))
        assert np.array_equal(batch.tokens, train[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))
        assert np.array_equal(batch.labels, train[:, 0])
        assert len(dataset.split("test")) == 4


def test_imagenet64_batches(tmp_path):
    folder = tmp_path / "imagenet"
    folder.mkdir()
    pixels = RNG.integers(0, 256, (6, 3 * 64 * 64), dtype=np.uint8)
    for name, rows in (
        ("train_data_batch_1", slice(0, 2)),
        ("train_data_batch_2", slice(2, 4)),
        ("val_data", slice(4, 6)),
    ):
        np.savez(folder / f"{name}.npz", data=pixels[rows], labels=np.arange(1, 7)[rows], mean=np.zeros(12288))
    dataset = prepared(tmp_path, folder)
    assert dataset.splits == ["train", "valid"]
    batch = dataset.split("train").read(np.arange(4))
    assert np.array_equal(batch.tokens, pixels[:4].reshape(-1, 3, 64, 64).transpose(0, 2, 3, 1))
    assert batch.labels.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("form", ["plain", "zip", "xz"])
def test_text8_is_checked_and_split_by_position(tmp_path, form):
    import hashlib

    text = ("the quick brown fox jumps over the lazy dog " * 30)[:1000].encode()
    path = {"plain": tmp_path / "text8", "zip": tmp_path / "text8.zip", "xz": tmp_path / "text8.xz"}[form]
    if form == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("text8", text)
    else:
        path.write_bytes(lzma.compress(text) if form == "xz" else text)
    sizes = {"train": 900, "valid": 50, "test": 50}
    source = named.text8(path, tmp_path / "cache", hashlib.md5(text).hexdigest(), sizes)  # noqa: S324
    found = {
        split: b"".join(p.content for part in source.parts if part.split == split for p in part.pieces())
        for split in sizes
    }
    assert found == {"train": text[:900], "valid": text[900:950], "test": text[950:]}
    with pytest.raises(ValueError, match="is not text8: got md5"):
        find_source(str(path), reading=Reading(cache=tmp_path / "cache"))
    assert find_source(str(path), "text").parts[0].split is None


def test_text8_is_split_by_characters_whatever_its_parts_and_vocabulary(tmp_path, monkeypatch):
    """Parts end between words, splits where they must; subwords are learned from the training split alone."""
    import hashlib

    monkeypatch.setattr(named, "PART", 64)
    text = (("abcde fghij " * 75)[:900] + ("klmno pqrst " * 9)[:100]).encode()  # the rest has different letters
    path = tmp_path / "text8"
    path.write_bytes(text)
    sizes, md5 = {"train": 900, "valid": 50, "test": 50}, hashlib.md5(text).hexdigest()  # noqa: S324
    monkeypatch.setattr(named, "TEXT8_SIZES", sizes)
    kind = replace(KINDS["text8"], read=lambda paths, how: named.text8(paths[0], how.cache, md5))
    monkeypatch.setitem(KINDS, "text8", kind)
    parts = named.text8(path, tmp_path, md5).parts
    assert len(parts) == 15 + 1 + 1
    assert all(p.content.endswith(b" ") for part in parts[:14] for p in part.pieces())
    dataset = prepared(tmp_path, path, vocabulary="bpe:300", length=4)
    found = {name: dataset.split(name) for name in sizes}
    decoded = {name: dataset.vocabulary.decode(s.stream(0, s.tokens)) for name, s in found.items()}
    assert decoded == {"train": text[:900].decode(), "valid": text[900:950].decode(), "test": text[950:].decode()}
    learned = [dataset.vocabulary.decode([i]) for i in range(257, dataset.vocabulary.size)]
    assert learned
    assert not any(set(token) & set("klmnopqrst") for token in learned)


def test_hub_data_sets_through_a_local_stand_in(tmp_path):
    """`datasets` reads a folder in the hub's format exactly as it reads the hub."""
    folder = tmp_path / "owner" / "set"
    folder.mkdir(parents=True)
    for i in range(3):
        (folder / f"train-{i}.jsonl").write_text("".join(json.dumps({"text": w}) + "\n" for w in WORDS[i::3]))
    dataset = prepared(tmp_path, f"hub:{folder}", length=8)
    assert sorted(documents(dataset)) == sorted(WORDS)
    with pytest.raises(ValueError, match="has no column 'body'"):
        prepare(Plan(f"hub:{folder}", reading=Reading(column="body")), tmp_path / "other")


def test_a_network_that_fails_midway_keeps_the_finished_parts(tmp_path, monkeypatch):
    import datasets

    folder, out, calls = tmp_path / "owner" / "set", tmp_path / "out", []
    folder.mkdir(parents=True)
    for i in range(4):
        (folder / f"train-{i}.jsonl").write_text("".join(json.dumps({"text": w}) + "\n" for w in WORDS[i::4]))
    plan, whole = Plan(f"hub:{folder}", vocabulary="bytes", length=8), datasets.load_dataset

    def failing(*words, **options):
        calls.append(words)
        if len(calls) == 4:  # to count the shards, then once for each
            raise RuntimeError("connection reset")
        return whole(*words, **options)

    monkeypatch.setattr(datasets, "load_dataset", failing)
    with pytest.raises(OSError, match=r"connection reset; check the network, then run the same command again"):
        prepare(plan, out)
    assert sorted(path.name for path in out.rglob("part-*") if not path.suffix) == ["part-000000", "part-000001"]
    monkeypatch.undo()
    prepare(plan, out)
    assert sorted(documents(Dataset(out))) == sorted(WORDS)


def test_the_hub_without_its_extra_says_how_to_install_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(ValueError, match=r'a data set from the hub needs .*pip install "unmask\[hub\]"'):
        prepare(Plan("hub:a/b"), tmp_path / "out")


def test_rows_of_numbers_of_different_lengths_have_an_end(tmp_path):
    """0 is a value like any other; a row without numbers is none."""
    rows = [" ".join(map(str, RNG.integers(0, 5, size=n))) for n in RNG.integers(2, 7, size=60)]
    (tmp_path / "a.txt").write_text("\n".join([rows[0], "\u00a0", *rows[1:]]) + "\n")
    dataset = prepared(tmp_path, tmp_path / "a.txt", kind="lines", vocabulary="integers:5", rows=True)
    assert (dataset.vocabulary.size, dataset.vocabulary.eos_id, dataset.manifest.empty) == (6, 5, 1)
    assert sorted(documents(dataset)) == sorted(rows)
    batch = dataset.split("train").read(np.arange(40))
    assert (batch.tokens[~batch.valid] == 5).all()
    assert [dataset.vocabulary.decode(row) for row in batch.tokens] == [
        dataset.vocabulary.decode(row[valid]) for row, valid in zip(batch.tokens, batch.valid, strict=True)
    ]
    with pytest.raises(ValueError, match=r"outside the vocabulary: got 5, allowed: 0\.\.4"):
        dataset.vocabulary.encode("4 5")


def test_fetching_checks_what_came(tmp_path):
    """From a real HTTP server: fetched once, checked, and a damaged file is named."""
    import functools
    import hashlib
    import http.server
    import threading

    from unmask.data.files import fetch

    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "a.bin").write_bytes(b"hello")
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=tmp_path / "site")
    handler.log_message = lambda *_: None
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url, md5 = f"http://127.0.0.1:{server.server_port}/a.bin", hashlib.md5(b"hello").hexdigest()  # noqa: S324
        assert fetch(url, tmp_path / "got", md5).read_bytes() == b"hello"
        with pytest.raises(ValueError, match="damaged or a different file"):
            fetch(url, tmp_path / "again", "0" * 32)
        with pytest.raises(ValueError, match="could not be fetched"):
            fetch(url + "x", tmp_path / "missing", md5)
        assert not (tmp_path / "missing").exists()
        server.shutdown()
    assert fetch("http://127.0.0.1:9/unreachable", tmp_path / "got", md5) == tmp_path / "got"  # already there


def write(path, data):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return str(path)


def array(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, np.zeros((40, 4), dtype=np.uint8))
    return str(path)


def arrays(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, x=np.zeros((40, 4), dtype=np.uint8), y=np.zeros(40, dtype=np.int64))
    return str(path)


def mixed_folder(folder):
    for name in ("a.txt", "b.md"):
        write(folder / "mixed" / name, b"abc" * 99)
    write(folder / "mixed" / "c.png", b"")
    return str(folder / "mixed")


def splits_without_training(folder):
    for name in ("wiki.test.tokens", "wiki.valid.tokens"):
        write(folder / "wiki" / name, b"abc" * 99)
    return str(folder / "wiki")


def several_texts(folder):
    """Text, some of which is not UTF-8."""
    (folder / "many").mkdir(parents=True)
    for name, content in (("a", b"abc " * 50), ("b", b"caf\xe9 " * 50), ("c", b"abc " * 50)):
        (folder / "many" / f"{name}.txt").write_bytes(content)
    return str(folder / "many")


def deep_pictures(folder):
    """Grey images of 16 bits, which Pillow would clip at 255."""
    from PIL import Image as image  # noqa: N813

    (folder / "deep").mkdir(parents=True)
    image.fromarray((np.arange(64).reshape(8, 8) * 1000).astype(np.uint16)).save(folder / "deep" / "p.png")
    return str(folder / "deep")


def pictures_beside_splits(folder):
    """An image that belongs to no split."""
    from PIL import Image as image  # noqa: N813

    for name in ("train/a.png", "valid/b.png", "forgotten/c.png"):
        path = folder / "some" / name
        path.parent.mkdir(parents=True)
        image.new("L", (8, 8)).save(path)
    return str(folder / "some")


def test_images_have_a_side():
    with pytest.raises(ValueError, match="the side of the images is not positive: got 0"):
        Reading(image_size=0)


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        (lambda d: str(d / "nothing"), {}, "no such source"),
        (lambda d: write(d / "a.txt", b""), {}, "holds no tokens"),
        (lambda d: write(d / "a.txt", b"caf\xe9 " * 50), {}, "a.txt is not UTF-8: got byte 0xe9"),
        (several_texts, {}, "b.txt is not UTF-8: got byte 0xe9"),
        (several_texts, {"vocabulary": "alphabet: abcf"}, r"is not UTF-8: got byte 0xe9.*b\.txt\)"),
        (deep_pictures, {}, "p.png has more than 256 levels: got mode I;16, allowed: 8 bits per channel"),
        (pictures_beside_splits, {}, r"some has splits, and images beside them: got .*forgotten/c\.png"),
        (
            lambda d: write(d / "a.jsonl", b'{"text": "a"}\nnonsense\n'),
            {},
            "line 2 of .*a.jsonl is not a JSON object .Expecting value at character 1.: got nonsense",
        ),
        (lambda d: write(d / "a.jsonl", b"\xef\xbb\xbfnonsense\n"), {}, "line 1 of .*a.jsonl is not a JSON object"),
        (lambda d: write(d / "a.jsonl", b'{"text": "a"}\rno\r'), {}, "line 2 of .*a.jsonl is not a JSON object"),
        (lambda d: write(d / "a.jsonl", b'{"text": "caf\xe9"}\n'), {}, "a.jsonl is not UTF-8: got byte 0xe9"),
        (lambda d: write(d / "a.jsonl", b'{"body": "a"}\n'), {}, "has no field 'text': got a record with body"),
        (lambda d: write(d / "a.csv", b"x,y\n1,2\n"), {}, "has no field 'text': got a record with x, y"),
        (
            lambda d: write(d / "a.csv", b'text,y\nab,1\n"two\nlines",1\nab, c,1\n'),
            {},
            "line 5 of .*a.csv is not a row of the table: got more fields than the header, allowed: as many; put",
        ),
        (
            lambda d: write(d / "a.csv", b'text,y\nab,1\n"never closed,1\nab,1\nab,1\n'),
            {},
            "the row that begins in line 3 of .*a.csv cannot be read: got unexpected end of data, allowed: quotes in",
        ),
        (lambda d: write(d / "a.csv", b'text\n"ab"c\n'), {}, "the row that begins in line 2 of .*a.csv cannot be"),
        (
            mixed_folder,
            {},
            "holds several kinds of files: got 1 images and 2 other files, allowed: one kind at a time; name --kind",
        ),
        (
            splits_without_training,
            {},
            "name splits, but none is for training: got test and valid",
        ),
        (lambda d: write(d / "a.fasta", b"ACGT\nACGT\n"), {}, "is not FASTA"),
        (lambda d: write(d / "a.npy", b"not an array"), {}, "is not an array file"),
        (lambda d: write(d / "a.txt", b"abc" * 99), {"kind": "prose"}, "unknown kind of source: got prose"),
        (
            lambda d: write(d / "a.txt", b"abc" * 99),
            {"reading": Reading(image_size=8)},
            "text does not use --image-size: got 8, allowed: none of --column, --label-column, --image",
        ),
        (
            lambda d: write(d / "a.csv", b"text\nab\n"),
            {"reading": Reading(grey=True)},
            "csv does not use --grey: got True, allowed: --column, --label-column",
        ),
        (lambda _: "mnist", {"reading": Reading(column="x")}, "mnist does not use --column"),
        (lambda _: "text8", {"kind": "lines"}, "the kind of text8 is fixed: got --kind lines"),
        (lambda _: "hub:a/b", {"kind": "csv"}, "the kind of hub:a/b is fixed: got --kind csv"),
        (lambda d: array(d / "a.npy"), {"reading": Reading(column="x")}, "is one array without a name: got x"),
        (lambda d: array(d / "a.npy"), {"reading": Reading(label_column="y")}, "is one array without a name: got y"),
        (lambda d: arrays(d / "a.npz"), {"reading": Reading(label_column="y")}, "the name of the data too: got only"),
        (lambda d: write(d / "a.txt", b"abc" * 99), {"vocabulary": "runes"}, "unknown vocabulary: got runes"),
        (lambda d: write(d / "a.txt", b"abc" * 99), {"vocabulary": "bpe"}, "needs a size"),
        (
            lambda d: write(d / "a.txt", b"abc" * 99),
            {"vocabulary": "bytes:17"},
            "bytes takes no argument",
        ),
        (lambda d: array(d / "a.npy"), {"vocabulary": "bytes"}, "of text cannot encode numbers: got an array"),
        (lambda d: write(d / "a.txt", b"abx" * 99), {"vocabulary": "alphabet:ab"}, "'x' is not in the vocabulary"),
        (lambda d: write(d / "a.smi", b"CCO\nCC\n"), {}, "no document fell into the split"),
        (lambda d: write(d / "m" / "train-images-idx3-ubyte", b"junk"), {"kind": "mnist"}, "lacks MNIST's train files"),
    ],
)
def test_bad_sources_are_named_and_leave_nothing(tmp_path, make, options, message):
    source = make(tmp_path / "in")
    if options.get("kind") == "mnist":
        source = str(tmp_path / "in" / "m")
    with pytest.raises(ValueError, match=message) as caught:
        prepare(Plan(source, **options), tmp_path / "out")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_images_of_different_size_are_refused(tmp_path):
    from PIL import Image as image  # noqa: N813

    (tmp_path / "p").mkdir()
    for i in range(40):
        image.new("RGB", (8 + i % 2, 8)).save(tmp_path / "p" / f"{i}.png")
    with pytest.raises(ValueError, match="the rows differ in shape"):
        prepare(Plan(str(tmp_path / "p")), tmp_path / "out")
    (tmp_path / "p" / "x.png").write_bytes(b"no image")
    with pytest.raises(ValueError, match="is not a readable image"):
        prepare(Plan(str(tmp_path / "p")), tmp_path / "out")


def test_objects_in_arrays_are_never_unpickled(tmp_path):
    np.save(tmp_path / "a.npy", np.array([[object()]], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match="Python objects"):
        prepare(Plan(str(tmp_path / "a.npy")), tmp_path / "out")


def _cut(data):
    return data[: len(data) // 2]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.txt.gz", _cut(gzip.compress(b"some words " * 999))),
        ("a.txt.xz", _cut(lzma.compress(bytes(RNG.integers(0, 99, 9999, dtype=np.uint8))))),
        ("a.txt.bz2", _cut(bz2.compress(b"some words " * 999))),
        ("a.txt.gz", b"no archive"),
        ("a.txt.xz", b"no archive"),
        ("a.txt.bz2", b"no archive"),
        ("a.txt.zip", b"no archive"),
        ("a.csv.gz", _cut(gzip.compress(b"text\nsome words\n" * 999))),
    ],
    ids=["gz", "xz", "bz2", "no-gz", "no-xz", "no-bz2", "no-zip", "csv"],  # gzip writes the time, and names must last
)
def test_damaged_archives_are_named(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=rf"{name} is damaged: got ") as caught:
        prepared(tmp_path, tmp_path / name)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "prepared").exists()


def test_damaged_sets_are_named(tmp_path):
    """MNIST, CIFAR-10 and text8 with a part missing."""
    mnist = tmp_path / "mnist"
    mnist.mkdir()
    for name in ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1"):
        (mnist / f"{name}-ubyte.gz").write_bytes(_cut(gzip.compress(bytes(RNG.integers(0, 99, 999, dtype=np.uint8)))))
    packed = tmp_path / "cifar-10-binary.tar.gz"
    (tmp_path / "test_batch.bin").write_bytes(bytes(RNG.integers(0, 99, 30 * 3073, dtype=np.uint8)))
    with tarfile.open(packed, "w:gz") as archive:
        archive.add(tmp_path / "test_batch.bin")
    packed.write_bytes(_cut(packed.read_bytes()))
    (tmp_path / "text8.xz").write_bytes(_cut(lzma.compress(bytes(RNG.integers(0, 99, 9999, dtype=np.uint8)))))
    for name, kind in (("mnist", "mnist"), ("cifar-10-binary.tar.gz", "cifar10"), ("text8.xz", "text8")):
        with pytest.raises(ValueError, match="is damaged: got ") as caught:
            prepared(tmp_path, tmp_path / name, kind=kind)
        assert "\n" not in str(caught.value)
        assert not (tmp_path / "prepared").exists()


@pytest.mark.parametrize("count", [0, 2])
def test_an_archive_of_several_files_is_not_read_in_part(tmp_path, count):
    with zipfile.ZipFile(tmp_path / "a.txt.zip", "w") as archive:
        for i in range(count):
            archive.writestr(f"{i}.txt", "words " * 99)
    with pytest.raises(ValueError, match=f"does not hold one file: got {count} files"):
        prepared(tmp_path, tmp_path / "a.txt.zip")


def test_the_mark_of_utf8_is_no_text(tmp_path):
    """Excel and Notepad write one; it must neither hide the first column nor become a symbol."""
    (tmp_path / "a.csv").write_text("SMILES,y\r\n" + "CCO,a\r\n" * 40, encoding="utf-8-sig")
    assert set(documents(prepared(tmp_path, tmp_path / "a.csv", column="SMILES"))) == {"CCO"}
    (tmp_path / "b.txt").write_text("abc " * 99, encoding="utf-8-sig")
    prepare(Plan(str(tmp_path / "b.txt"), length=8), tmp_path / "b")
    assert Dataset(tmp_path / "b").vocabulary.symbols == " abc"


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        ([0, 2], ["0", "1", "2"]),
        ([20230000, 20230001], ["20230000", "20230001"]),
        ([-1, 1], ["-1", "1"]),
        ([True, False], ["False", "True"]),
        (["b", "a"], ["a", "b"]),
    ],
)
def test_classes_are_those_that_occur(tmp_path, labels, names):
    lines = [json.dumps({"text": "abc", "y": labels[i % 2]}) for i in range(60)]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    dataset = prepared(tmp_path, tmp_path / "a.jsonl", label_column="y")
    assert dataset.manifest.label_names == names
    assert {names[i] for i in dataset.split("train").labels} == {str(label) for label in labels}


@pytest.mark.parametrize(
    ("line", "options", "message"),
    [
        ({"text": "abc", "y": ["a"]}, {"label_column": "y", "rows": True}, r"neither a name nor a number: got \['a'\]"),
        ({"text": "abc", "y": []}, {"label_column": "y", "rows": True}, r"neither a name nor a number: got \[\]"),
        ({"text": "abc", "y": 1}, {"label_column": "y", "rows": False}, "running text has no classes: got --label"),
        ({"text": ["abc"]}, {}, "the field 'text' of .* holds no text: got list"),
        ({"text": None}, {}, "the source holds no tokens"),
    ],
)
def test_fields_that_hold_something_else(tmp_path, line, options, message):
    (tmp_path / "a.jsonl").write_text(f"{json.dumps(line)}\n" * 60)
    with pytest.raises(ValueError, match=message):
        prepared(tmp_path, tmp_path / "a.jsonl", **options)
    assert not (tmp_path / "prepared").exists()


def test_files_of_another_kind_than_they_are_said_to_be(tmp_path):
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "a.txt").write_text("abc")
    with pytest.raises(ValueError, match="holds no images"):
        prepared(tmp_path, tmp_path / "p", kind="images")
    (tmp_path / "a.csv").write_bytes("text\nM\xfcller\n".encode("latin-1") * 30)
    with pytest.raises(ValueError, match=r"a.csv is not UTF-8: got byte 0xfc"):
        prepared(tmp_path, tmp_path / "a.csv")
    (tmp_path / "a.jsonl").write_text("[" * 100_000 + "]" * 100_000)
    with pytest.raises(ValueError, match="not a JSON object"):
        prepared(tmp_path, tmp_path / "a.jsonl")
