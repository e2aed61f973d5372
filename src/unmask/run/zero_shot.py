"""Text that a model was not trained on, by a named protocol, and multiple choice: from local files."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ..data.files import open_bytes, suffix
from ..evaluation import (
    Accuracy,
    Scores,
    Sequences,
    accuracy,
    answer,
    bits,
    estimator_for,
    find_detokeniser,
    find_protocol,
    per_unit,
    perplexity,
    read_questions,
    score,
)
from ..mistakes import require
from ..training import charge_chunks
from .evaluate import Evaluation, Progress
from .model import Model

_ROWS = 64


@dataclass(frozen=True)
class ZeroShot:
    """A text file, what its rows are, and how they become sequences."""

    file: Path
    protocol: str = "sedd"
    detokeniser: str = "none"


def rows_of(path: Path) -> Iterator[str]:
    """The rows of a set: lines of a text, or `text` of JSON lines."""
    with open_bytes(path) as file:
        for line in file:
            text = line.decode("utf-8")
            yield json.loads(text)["text"] if suffix(path) == ".jsonl" else text


def sequences_of(model: Model, wanted: ZeroShot) -> NDArray[np.int64]:
    """The set as the protocol cuts it, [S, N]."""
    protocol, plain = find_protocol(wanted.protocol), find_detokeniser(wanted.detokeniser)
    end = model.vocabulary.eos_id
    require(
        end is not None and not model.rows,
        "the protocol needs running text with an end",
        got=repr(model.vocabulary),
        allowed="a vocabulary with an end of text",
        do="prepare the training data with bpe or bytes",
    )
    rows = (model.vocabulary.encode(plain(text)).astype(np.int64) for text in rows_of(wanted.file))
    return protocol.sequences(rows, model.facts.shape[0], int(end or 0))


def zero_shot(model: Model, wanted: ZeroShot, how: Evaluation, progress: Progress | None = None) -> dict[str, Any]:
    """Perplexity and bits of the set, with the protocol they were made by."""
    tokens = sequences_of(model, wanted)[: how.sequences]
    require(len(tokens) > 0, "the set is shorter than one sequence", got="0", allowed=">= 1", do="add text")

    def batches() -> Iterator[Sequences]:
        size = max(1, _ROWS // how.draws)
        for start in range(0, len(tokens), size):
            rows = torch.from_numpy(tokens[start : start + size]).to(model.device)
            yield Sequences(rows, torch.arange(start, start + len(rows), device=model.device))
            if progress is not None:
                progress(start + len(rows), len(tokens))

    estimator = estimator_for(model.process, how.estimator, how.steps)
    found = score(
        model.network, batches(), estimator, draws=how.draws, repeats=how.repeats, seed=how.seed, charge=charge_chunks
    )
    scores = Scores.joined(found)
    figure = per_unit(scores, scores.tokens)
    value, low, high = perplexity(figure)
    return {
        **asdict(wanted),
        "file": wanted.file.name,
        "sequences": len(tokens),
        "tokens": int(scores.tokens.sum()),
        "network_calls": scores.calls,
        "bits_per_token": asdict(bits(figure)),
        "perplexity": {"value": value, "low": low, "high": high},
    }


def choices(
    model: Model, file: Path, how: Evaluation, *, whole: bool, draws: int, progress: Progress | None = None
) -> Accuracy:
    """Accuracy on a file of questions."""
    questions = list(read_questions(file))[: how.sequences]
    found = answer(
        model.network,
        questions,
        estimator_for(model.process, how.estimator),
        model.vocabulary,
        length=model.facts.shape[0],
        draws=draws,
        seed=how.seed,
        whole=whole,
        charge=charge_chunks,
    )

    def counted() -> Iterator[Any]:
        for number, one in enumerate(found, start=1):
            if progress is not None:
                progress(number, len(questions))
            yield one

    return accuracy(counted())
