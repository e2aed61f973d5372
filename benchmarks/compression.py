"""Can the bound be reached by a file? Compresses held-out text with several numbers of network calls.

    python -m benchmarks.compression demo data/books --sequences 128

The beginning of the test split is compressed and decompressed with each number of calls per window, and its bound is
computed for comparison. The usual compressors know nothing about English beyond the text itself.
"""

import argparse
import bz2
import gzip
import lzma
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from unmask.evaluation import Scores, bits, per_unit, score
from unmask.run import Model, find_model
from unmask.run.compression import compress, decompress
from unmask.run.evaluate import Evaluation, batches, split_of
from unmask.run.model import load

from .record import Record, plainly

OTHERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip -9": lambda text: gzip.compress(text, 9),
    "bzip2 -9": lambda text: bz2.compress(text, 9),
    "xz -9e": lambda text: lzma.compress(text, preset=9 | lzma.PRESET_EXTREME),
}


def written(model: Model, name: str, text: bytes, steps: int) -> dict[str, Any]:
    """Compress, decompress, check that the text is restored, and return the sizes."""
    made = compress(model, name, text, steps=steps)
    if decompress(model, made) != text:
        raise RuntimeError("another text came back")
    size = len(made.to_bytes())
    print(f"{steps} steps: {len(made.code):,} bytes of code, {size:,} with the header")
    return {"steps": steps, "code": len(made.code), "file": size}


def main() -> None:
    """Compress, decompress, compare and record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a run or an exported model of running text")
    parser.add_argument("data", help="prepared data with its vocabulary")
    parser.add_argument("--sequences", type=int, default=128, help="windows from the beginning of the test split")
    parser.add_argument("--steps", type=int, nargs="+", default=[12, 24, 48, 96, 192])
    given = parser.parse_args()
    record = Record("compression", 0)
    found = find_model(given.model)
    model = load(found)
    split = split_of(found, model, Evaluation(data=given.data))
    numbers = np.arange(min(given.sequences, len(split)))
    texts = [model.vocabulary.spelt(row) for row in split.read(numbers).tokens]
    text = b"".join(texts)
    rows = [written(model, given.model, text, steps) for steps in given.steps]
    how: dict[str, Any] = {"draws": 16, "repeats": 4}
    scores = Scores.joined(score(model.network, batches(model, split, numbers, 4), model.estimator(), **how))
    scores = replace(scores, neighbours=split.running)
    bound = bits(per_unit(scores, np.array([len(part) for part in texts])))
    record.write(
        model=given.model,
        text={"bytes": len(text), "windows": len(numbers), "tokens": int(scores.tokens.sum())},
        bound=asdict(bound),
        rows=rows,
        others={name: len(make(text)) for name, make in OTHERS.items()},
    )


if __name__ == "__main__":
    plainly(main)
