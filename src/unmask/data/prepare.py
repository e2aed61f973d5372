"""Preparation: documents → token shards with a manifest.

The source is read part by part in parallel processes. A finished part is a folder under `.preparing/` that appears
complete; if interrupted, the same command resumes from the finished parts. The output depends only on the plan, not on
the number of workers or on interruptions.
"""

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ..files import alone, check_folder, check_same, claim, named
from ..mistakes import fail
from .choose import choose_vocabulary
from .files import glimpse
from .gather import TALLY, gather
from .manifest import FILE, MOST_TOKENS, Manifest
from .order import mix
from .sources import NOTHING, Part, Piece, Reading, Source, find_source
from .vocabulary import Vocabulary
from .vocabulary import load as load_vocabulary

WORK = ".preparing"
FINGERPRINT = "files"
"""The field of a plan that identifies the files it was made for."""
_OTHER = {"holds": "holds other prepared data", "same": "the same plan"}
_SHIFT = 24
"""Parts that one process encodes before a fresh one takes over: tokenizers never release memory."""
HELD_OUT = 0.05
"""Default share of each held-out split."""
_LEAVE = "leave --valid and --test out"
_GOLDEN_RATIO = 0.6180339887498949
Progress = Callable[[int, int], None]
"""(done, total), by the weight of the parts."""


@dataclass(frozen=True)
class Plan:
    """What to read and how to prepare it. The same plan on the same files writes the same bytes."""

    source: str
    """A path, a folder, a pattern, hub:ID, or a known name (`unmask.data.sources.NAMES`)."""
    kind: str | None = None
    """How to read it (`unmask.data.sources.KINDS`); None: chosen by its files."""
    reading: Reading = field(default_factory=Reading)
    vocabulary: str | None = None
    """See `choose.ALLOWED`; None: chosen by the content."""
    length: int | None = None
    """Tokens per row; None: the longest document (rows) or 256 (packed)."""
    rows: bool | None = None
    """One document per row rather than packed end to end; None: what is natural for the source."""
    valid: float | None = None
    test: float | None = None
    """Shares held out of the data that is not held out yet; None: 0.05, or none if the source has its own splits."""
    seed: int = 0
    """Decides which documents are held out."""

    def __post_init__(self) -> None:
        valid, test = self.valid or 0.0, self.test or 0.0
        if not (min(valid, test) >= 0 and valid + test < 1):  # nor a NaN
            got = f"valid {valid}, test {test}"
            fail("the held-out shares are out of range", got=got, allowed="each >= 0, together < 1", do="lower them")
        if not 0 <= self.seed < 2**64:
            fail("seed is out of range", got=self.seed, allowed="0 <= seed < 2**64", do="pass a non-negative integer")
        if self.length is not None and not 1 <= self.length <= MOST_TOKENS:
            allowed, do = f"1..{MOST_TOKENS:,}", "pass the tokens per row"
            fail("the length is out of range", got=self.length, allowed=allowed, do=do)

    def shares(self, source: Source) -> dict[str, float]:
        """The shares held out, by the name of the split."""
        own = {part.split for part in source.parts if part.split}
        usual = 0.0 if own else HELD_OUT
        wanted = (("valid", self.valid), ("test", self.test))
        found = {name: share for name, given in wanted if (share := usual if given is None else given)}
        if own and found and source.one_document:
            what, allowed = "a text with its own splits cannot be split again", ", ".join(sorted(own))
            fail(what, got=str(found), allowed=allowed, do=_LEAVE)
        for name in own & found.keys():
            fail(f"the source has its own split {name}", got=found[name], allowed="no share for it", do=_LEAVE)
        return found

    def to_json(self, source: Source, rows: bool) -> dict[str, Any]:
        """The plan as JSON, with a fingerprint of the files it was made for."""
        reading = {k: v for k, v in asdict(self.reading).items() if k != "cache"}
        files = repr([(part, part.weight) for part in source.parts]) + repr([glimpse(file) for file in source.files])
        return {
            **{k: v for k, v in asdict(self).items() if k != "reading"},
            **{"valid": 0.0, "test": 0.0} | self.shares(source),
            **reading,
            "rows": rows,
            FINGERPRINT: hashlib.blake2b(files.encode(), digest_size=8).hexdigest(),
        }


@dataclass(frozen=True)
class _Job:
    """What a worker needs to encode one part."""

    part: Part
    number: int
    vocabulary: Vocabulary
    rows: bool
    longest: int | None
    by_document: bool
    shares: dict[str, float]
    seed: int
    work: Path

    @property
    def folder(self) -> Path:
        return self.work / f"part-{self.number:06d}"


@dataclass
class _Tally:
    """What one part contributed to one split."""

    tokens: int = 0
    documents: int = 0
    lengths: list[int] = field(default_factory=list)
    labels: list[int | str | None] = field(default_factory=list)


def prepare(
    plan: Plan,
    out: Path | str,
    *,
    workers: int = 1,
    progress: Progress | None = None,
) -> Manifest:
    """Carry out a plan in the folder `out`: resumes from the finished parts, and does nothing if it is complete."""
    out = Path(out)
    if not (out / FILE).exists():
        check_folder(out)  # before anything is fetched
    source = find_source(plan.source, plan.kind, plan.reading)
    rows = (source.rows or bool(plan.reading.label_column)) if plan.rows is None else plan.rows
    if plan.reading.label_column and not rows:
        got = f"--label-column {plan.reading.label_column}"
        fail("running text has no classes", got=got, allowed="rows, each with its class", do="use --layout rows")
    document = plan.to_json(source, rows)
    if (out / FILE).exists():
        manifest = Manifest.load(out)
        _check_plan(out, manifest.plan, document)
        return manifest
    with alone(out):
        return _prepared(plan, source, rows, document, out, workers, progress)


def _check_plan(out: Path, there: dict[str, Any], plan: dict[str, Any]) -> None:
    """The fingerprint of the files depends on how they are read, so it is compared only if all else is equal."""
    for unseen in (FINGERPRINT, None):
        old, new = ({key: value for key, value in one.items() if key != unseen} for one in (there, plan))
        check_same(out, old, new, **_OTHER)


def _prepared(
    plan: Plan,
    source: Source,
    rows: bool,
    document: dict[str, Any],
    out: Path,
    workers: int,
    progress: Progress | None,
) -> Manifest:
    work = out / WORK
    claim(out, work / "plan.json", document, **_OTHER)
    try:
        shares = plan.shares(source)
        jobs = _jobs(plan, source, rows, shares, work, workers)
        total, done = sum(job.part.weight for job in jobs), 0
        for job in _encoded(jobs, workers):
            done += job.part.weight
            if progress is not None:
                progress(done, total)
        folders, vocabulary = [job.folder for job in jobs], jobs[0].vocabulary
        manifest = gather(folders, source, vocabulary, out, plan.length, shares, document)
    except ValueError:  # the data or the plan is wrong: there is nothing to resume from
        _discard(out)
        raise
    shutil.rmtree(work)
    return manifest


def _discard(out: Path) -> None:
    """Remove what preparation wrote into a folder that was empty before, and the folder itself."""
    for name in (WORK, "shards"):
        shutil.rmtree(out / name, ignore_errors=True)
    for path in (out / "vocabulary.json", *out.glob("*.lengths.npy"), *out.glob("*.labels.npy")):
        path.unlink(missing_ok=True)
    if not any(out.iterdir()):
        out.rmdir()


def _jobs(plan: Plan, source: Source, rows: bool, shares: dict[str, float], work: Path, workers: int) -> list[_Job]:
    vocabulary = _vocabulary(plan, source, rows, work, workers)
    longest = plan.length if rows else None
    return [
        _Job(part, i, vocabulary, rows, longest, not source.one_document, shares, plan.seed, work)
        for i, part in enumerate(source.parts)
    ]


def _vocabulary(plan: Plan, source: Source, rows: bool, work: Path, workers: int) -> Vocabulary:
    """Choose the vocabulary once; resumed work uses the one it started with."""
    path = work / "vocabulary.json"
    if path.exists():
        return load_vocabulary(path)
    vocabulary = choose_vocabulary(plan.vocabulary, source, rows, workers)
    vocabulary.save(path)
    return vocabulary


def _encoded(jobs: list[_Job], workers: int) -> Iterator[_Job]:
    """Encode every missing part, in any number of processes; yields parts as they are done."""
    todo = [job for job in jobs if not job.folder.exists()]
    yield from (job for job in jobs if job.folder.exists())
    if workers <= 1 or len(todo) <= 1:
        for job in todo:
            _encode(job)
            yield job
        return
    for start in range(0, len(todo), workers * _SHIFT):
        shift = todo[start : start + workers * _SHIFT]
        with ProcessPoolExecutor(min(workers, len(shift)), mp_context=get_context("spawn")) as pool:
            try:
                for job, _ in zip(shift, pool.map(_encode, shift), strict=True):
                    yield job
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise


def _encode(job: _Job) -> None:
    """Write one part: SPLIT.bin for the tokens and a tally of the rest, visible only when complete."""
    partial = job.folder.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    tallies: dict[str, _Tally] = {}
    outputs: dict[str, BinaryIO] = {}
    shapes: set[tuple[int, ...]] = set()
    dropped, empty, split, number, piece = 0, 0, "", -1, NOTHING
    try:
        for number, piece, starts in _numbered(job.part):
            if piece is NOTHING:
                empty += 1
                continue
            if job.rows and not piece.ends:
                fail(
                    "a document is too large for a row",
                    got="a whole file",
                    allowed="short documents",
                    do="use --layout packed",
                )
            ids = job.vocabulary.encode(piece.content)
            if job.rows and not ids.size:
                empty += 1
                continue
            if job.rows and job.longest is not None and ids.size > job.longest:
                dropped += 1
                continue
            if starts:
                split = _split_of(job, number)
            tally = tallies.setdefault(split, _Tally())
            if split not in outputs:
                outputs[split] = (partial / f"{split}.bin").open("wb")
            if not job.rows and piece.ends and job.by_document and job.vocabulary.eos_id is not None:
                ids = np.append(ids.ravel(), np.array(job.vocabulary.eos_id, dtype=ids.dtype))
            with named(job.folder):
                outputs[split].write(ids.astype(ids.dtype.newbyteorder("<")).tobytes())
            tally.tokens += ids.size
            tally.documents += piece.ends
            if job.rows:
                shapes.add(ids.shape)
                tally.lengths.append(ids.size)
                tally.labels.append(piece.label)
    except ValueError as mistake:
        place = piece.place or f"document {number + 1} of part {job.number + 1}"
        raise ValueError(f"{mistake} ({place})") from None
    finally:
        with named(job.folder):
            for file in outputs.values():
                file.close()
    few = sorted(shapes)[:2]  # one shape, or "several"
    counts = {"dropped": dropped, "empty": empty, "shapes": few}
    with named(job.folder):
        (partial / TALLY).write_text(json.dumps({"splits": {k: asdict(t) for k, t in tallies.items()}, **counts}))
    partial.rename(job.folder)


def _numbered(part: Part) -> Iterator[tuple[int, Piece, bool]]:
    """Pieces with the number of their document within the part, and whether they start it."""
    number, starts = 0, True
    for piece in part.pieces():
        yield number, piece, starts
        if piece is not NOTHING:
            starts = piece.ends
            number += piece.ends


def _split_of(job: _Job, number: int) -> str:
    """The split of a document: multiples of the golden ratio from a random start fall evenly on the shares.

    Splits of the source are kept, except for what is held out of its training split.
    """
    if job.part.split not in (None, "train"):
        return job.part.split
    if not job.by_document:
        return job.part.split or "all"
    start = mix(mix(np.full(1, job.seed, dtype=np.uint64)) + np.uint64(job.number))[0]
    place = (float(start) / 2.0**64 + number * _GOLDEN_RATIO) % 1
    for name, share in job.shares.items():
        if place < share:
            return name
        place -= share
    return "train"
