"""The last stage of preparation: encoded parts → shards, splits, lengths, labels, and the manifest that completes it.

Every step can be repeated: if the process is killed here, running the same command again finishes the work.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..files import atomic_write, digest, read_kept
from ..mistakes import fail
from .manifest import Manifest, Segment, Shard, SplitPart
from .sources import Source
from .vocabulary import Vocabulary, shortened

TALLY = "tally.json"
DEFAULT_LENGTH = 256
FEW = 100
"""Fewer packed documents than this are split by position in the running text, not document by document."""
_COUNTED = 1000
"""Labels below this are class numbers."""
Tally = dict[str, Any]


def gather(
    parts: list[Path],
    source: Source,
    vocabulary: Vocabulary,
    out: Path,
    length: int | None,
    fractions: dict[str, float],
    plan: dict[str, Any],
) -> Manifest:
    """Gather encoded parts into a prepared folder."""
    tallies: list[Tally] = [read_kept(part / TALLY) for part in parts]
    rows, blank = plan["rows"], sum(tally["empty"] for tally in tallies)
    names = _ordered({name for tally in tallies for name in tally["splits"]})
    if not any(tally["splits"][name]["tokens"] for tally in tallies for name in tally["splits"]):
        if dropped := sum(tally["dropped"] for tally in tallies):
            got, allowed = f"{dropped} documents, all longer", f"at most {length} tokens"
            fail(
                "no document fits into a row",
                got=got,
                allowed=allowed,
                do="raise --length, or join and cut them with --layout packed",
            )
        fail(
            "the source holds no tokens",
            got=f"{blank} rows, all without text" if blank else "nothing to encode",
            allowed="at least one document",
            do="check the source",
        )
    shards: list[Shard] = []
    splits = {name: _split(name, parts, tallies, shards, out) for name in names}
    given = any(part.split for part in source.parts)
    documents = sum(part.documents for part in splits.values())
    if not rows and not given and (source.one_document or documents < FEW):
        whole = _joined(splits)
        splits = _by_position(whole, _sizes(whole.tokens, fractions))
    elif empty := [name for name in ("train", *fractions) if name not in splits]:
        fail(
            f"no document fell into the split {empty[0]}",
            got=f"{documents} documents",
            allowed="at least one in each split",
            do="use more data, or other shares with --valid and --test (0 for none)",
        )
    shape, label_names = [length or DEFAULT_LENGTH], []
    if rows:
        shape = _row_shape(tallies, length)
        splits = {name: _with_lengths(name, part, tallies, shape, out) for name, part in splits.items()}
        label_names = _label_names(tallies)
        splits = {name: _with_labels(name, part, tallies, label_names, out) for name, part in splits.items()}
    vocabulary.save(out / "vocabulary.json")
    manifest = Manifest(
        plan=json.loads(json.dumps(plan)),
        vocabulary_size=vocabulary.size,
        dtype=vocabulary.dtype.newbyteorder("<").str,
        rows=rows,
        length=int(np.prod(shape)),
        shape=shape,
        splits=splits,
        shards=shards,
        label_names=label_names,
        dropped=sum(tally["dropped"] for tally in tallies),
        empty=blank,
    )
    manifest.save(out)
    return manifest


def _ordered(names: set[str]) -> list[str]:
    known = ["train", "valid", "test"]
    return [n for n in known if n in names] + sorted(names - set(known))


def _split(name: str, parts: list[Path], tallies: list[Tally], shards: list[Shard], out: Path) -> SplitPart:
    """Move a split's token files into place, in the order of the parts, and list them."""
    segments, tokens, documents = [], 0, 0
    for number, (part, tally) in enumerate(zip(parts, tallies, strict=True)):
        found = tally["splits"].get(name)
        if not found or not found["tokens"]:
            continue
        target = out / "shards" / f"{name}-{number:06d}.bin"
        target.parent.mkdir(exist_ok=True)
        if (part / f"{name}.bin").exists():
            (part / f"{name}.bin").replace(target)
        segments.append(Segment(len(shards), 0, found["tokens"]))
        shards.append(Shard(f"shards/{target.name}", found["tokens"], digest(target)))
        tokens += found["tokens"]
        documents += found["documents"]
    return SplitPart(tokens, documents, segments)


def _joined(splits: dict[str, SplitPart]) -> SplitPart:
    """All splits as one running text."""
    parts = splits.values()
    segments = [segment for part in parts for segment in part.segments]
    return SplitPart(sum(part.tokens for part in parts), sum(part.documents for part in parts), segments)


def _sizes(tokens: int, fractions: dict[str, float]) -> dict[str, int]:
    held_out = {name: round(share * tokens) for name, share in fractions.items()}
    return {"train": tokens - sum(held_out.values()), **held_out}


def _by_position(whole: SplitPart, sizes: dict[str, int]) -> dict[str, SplitPart]:
    """Cut one running text at positions: the first `sizes[train]` tokens are train, and so on."""
    splits, start = {}, 0
    for name, size in sizes.items():
        segments, passed = [], 0
        for segment in whole.segments:
            count = segment.stop - segment.start
            low, high = max(start - passed, 0), min(start + size - passed, count)
            if low < high:
                segments.append(Segment(segment.shard, segment.start + low, segment.start + high))
            passed += count
        if size:
            splits[name] = SplitPart(size, 1, segments)
        start += size
    return splits


def _row_shape(tallies: list[Tally], length: int | None) -> list[int]:
    """The shape all rows share; sequences of different length share the longest (or the given) length."""
    shapes = {tuple(shape) for tally in tallies for shape in tally["shapes"]}
    if len(shapes) == 1 and length is None:
        return list(shapes.pop())
    if any(len(shape) > 1 for shape in shapes) and len(shapes) > 1:
        fail(
            "the rows differ in shape",
            got=" and ".join(map(str, sorted(shapes)[:2])),
            allowed="one shape for all",
            do="resize images with --image-size",
        )
    if len(shapes) == 1 and len(shape := shapes.pop()) > 1:
        return list(shape)
    longest = max(n for tally in tallies for split in tally["splits"].values() for n in split["lengths"])
    return [length or longest]


def _values(name: str, tallies: list[Tally], key: str) -> list[Any]:
    return [v for tally in tallies if name in tally["splits"] for v in tally["splits"][name][key]]


def _with_lengths(name: str, part: SplitPart, tallies: list[Tally], shape: list[int], out: Path) -> SplitPart:
    lengths = np.array(_values(name, tallies, "lengths"), dtype=np.int32)
    if (lengths == np.prod(shape)).all():
        return part
    with atomic_write(out / f"{name}.lengths.npy") as file:
        np.save(file, lengths)
    return replace(part, lengths=f"{name}.lengths.npy")


def _label_names(tallies: list[Tally]) -> list[str]:
    """The classes in order: numbers by value, names alphabetically; none if no document has a class.

    Small numbers are class numbers, counted from 0 and including those that do not occur; others are merely names.
    """
    found = [v for tally in tallies for split in tally["splits"].values() for v in split["labels"]]
    wrong = next((v for v in found if isinstance(v, list | dict)), None)
    if wrong is not None:
        what, do = "a class is neither a name nor a number", "name another column"
        fail(what, got=shortened(str(wrong)), allowed="a string or a number", do=do)
    labels = set(found)
    if labels == {None} or not labels:
        return []
    if None in labels:
        fail(
            "some documents have no class",
            got="documents with and without a class",
            allowed="a class for all, or for none",
            do="fill in the missing classes",
        )
    if all(type(v) is int for v in labels):
        counted = min(labels) >= 0 and max(labels) < _COUNTED
        return [str(v) for v in (range(max(labels) + 1) if counted else sorted(labels))]
    return sorted(map(str, labels))


def _with_labels(name: str, part: SplitPart, tallies: list[Tally], label_names: list[str], out: Path) -> SplitPart:
    if not label_names:
        return part
    number = {label: i for i, label in enumerate(label_names)}
    with atomic_write(out / f"{name}.labels.npy") as file:
        np.save(file, np.array([number[str(v)] for v in _values(name, tallies, "labels")], dtype=np.int32))
    return replace(part, labels=f"{name}.labels.npy")
