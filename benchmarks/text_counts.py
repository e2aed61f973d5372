"""N-gram references for the texts that a model is measured on: n-gram models of its training text, token by token.

    python -m benchmarks.text_counts NAME DATA SETS --sets wikitext2 ptb lambada

DATA is the prepared training text, SETS the folder of `benchmarks.text_figures`; the sequences are the same as there.
"""

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unmask.data import Dataset
from unmask.evaluation import NGram, Scores, bits, find_text, per_unit
from unmask.run.zero_shot import ZeroShot

from .record import Record


def figure(model: NGram, rows: NDArray[Any]) -> dict[str, Any]:
    """Bits per token, with each sequence scored separately, as the network sees it."""
    nats = np.array([-np.log(model.probs(row)).sum() for row in rows])
    scores = Scores(nats, np.zeros(len(rows)), np.full(len(rows), rows.shape[1]), 0, neighbours=True)
    return {"order": model.order, **asdict(bits(per_unit(scores, scores.tokens)))}


def main() -> None:
    """Count, measure and record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name")
    parser.add_argument("data")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sets", nargs="+", default=["wikitext2", "ptb", "lambada"])
    parser.add_argument("--orders", type=int, nargs="+", default=[1, 2, 3, 4])
    options = parser.parse_args()
    record, dataset = Record(options.name, seed=0), Dataset(options.data)
    train, test, vocabulary = dataset.split("train"), dataset.split("test"), dataset.vocabulary
    texts = {"held out": test.read(np.arange(len(test))).tokens}
    for name in options.sets:
        texts[name] = ZeroShot(find_text(name, options.folder)).sequences(vocabulary, test.length)
    counted = train.stream(0, train.tokens)
    models = [NGram(counted, order, vocabulary.size) for order in options.orders]
    found = {name: [figure(model, rows) for model in models] for name, rows in texts.items()}
    record.write(counted=train.tokens, sets=found)


if __name__ == "__main__":
    main()
