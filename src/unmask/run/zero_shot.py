"""Zero-shot evaluation: text that a model was not trained on, by a named protocol, and multiple choice."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import torch
from numpy.typing import NDArray

from ..data import Vocabulary
from ..data.order import spread
from ..evaluation import (
    Accuracy,
    Answered,
    Question,
    Scores,
    Sequences,
    accuracy,
    answer,
    bits,
    find_detokeniser,
    find_protocol,
    per_unit,
    perplexity,
    read_questions,
    score,
)
from ..evaluation.sets import Text
from ..files import digest, fingerprint, read_kept, write_json
from ..mistakes import fail, require
from .evaluate import Evaluation, Progress, of_some
from .folder import EVALS, ModelFolder
from .model import Model, load
from .sampling import GRIDS

_ROWS = 64
_QUESTIONS = 64
"""Questions per part."""


@dataclass(frozen=True)
class ZeroShot:
    """A text, and how its rows become sequences."""

    text: Text
    protocol: str = "sedd"
    detokeniser: str | None = None
    """None: the text's own."""

    @property
    def rules(self) -> str:
        """The detokeniser that is used."""
        return self.detokeniser or self.text.detokeniser

    def settings(self) -> dict[str, Any]:
        """What determines the sequences."""
        return {"set": self.text.name, "protocol": self.protocol, "detokeniser": self.rules, **self.text.origin()}

    def sequences(self, vocabulary: Vocabulary, length: int) -> NDArray[np.int64]:
        """The set, cut into sequences [S, length] by the protocol."""
        protocol, plain, end = find_protocol(self.protocol), find_detokeniser(self.rules), vocabulary.eos_id
        if end is None:
            _fail_without_end(repr(vocabulary))
        rows = (vocabulary.encode(plain(text)).astype(np.int64) for text in self.text.rows())
        return protocol.sequences(rows, length, end)


def _fail_without_end(got: str) -> NoReturn:
    fail(
        "the protocol needs a model of running text with an end-of-text token",
        got=got,
        allowed="a vocabulary with an end-of-text token",
        do="prepare the training data with bpe",
    )


def zero_shot(model: Model, wanted: ZeroShot, how: Evaluation, progress: Progress | None = None) -> dict[str, Any]:
    """Measure perplexity and bits of the set."""
    if model.fixed_shape:
        _fail_without_end(repr(model.vocabulary))
    every = wanted.sequences(model.vocabulary, model.facts.shape[0])
    require(len(every) > 0, "the set is too short", got="0 sequences", allowed="at least one", do="add text")
    number = np.sort(spread(len(every), how.sequences or len(every)))
    tokens = every[number]

    def batches() -> Iterator[Sequences]:
        size = max(1, _ROWS // how.draws)
        for start in range(0, len(tokens), size):
            rows, index = (torch.from_numpy(a[start : start + size]).to(model.device) for a in (tokens, number))
            yield Sequences(rows, index)
            if progress is not None:
                progress(start + len(rows), len(tokens))

    steps = None if how.steps is None else GRIDS[how.grid](how.steps)
    estimator = model.estimator(how.estimator, steps)
    found = score(
        model.network,
        batches(),
        estimator,
        draws=how.draws,
        repeats=how.repeats,
        seed=how.seed,
    )
    scores = replace(Scores.joined(found), neighbours=True)
    figure = per_unit(scores, scores.tokens)
    value, low, high = perplexity(figure)
    return {
        "sequences": len(tokens),
        "of": len(every),
        "tokens": int(scores.tokens.sum()),
        "network_calls": scores.calls,
        "bits_per_token": asdict(bits(figure)),
        "perplexity": {"value": value, "low": low, "high": high},
    }


@dataclass(frozen=True)
class ZeroShots:
    """Measures a run on texts: results are written to RUN/evals/NAME.json, and read if they exist."""

    run: ModelFolder
    how: Evaluation

    def measure(self, wanted: ZeroShot, progress: Progress | None = None) -> tuple[Path, dict[str, Any]]:
        """The file of the results, and the results with the settings that determine them."""
        settings = self._settings(wanted)
        path = self.run.results / EVALS / f"{_name(wanted, settings)}.json"
        if path.exists():
            found: dict[str, Any] = read_kept(path)
            return path, found
        found = write_json(path, settings | zero_shot(self._model, wanted, self.how, progress))
        return path, found

    def _settings(self, wanted: ZeroShot) -> dict[str, Any]:
        how = asdict(self.how)
        kept = ("estimator", "draws", "repeats", "steps", "grid", "average", "seed")
        chosen = {name: how[name] for name in kept} | {"at_most": self.how.sequences, "rows": "spread"}
        return wanted.settings() | chosen | {"checkpoint": self._pinned.identity}

    @cached_property
    def _pinned(self) -> ModelFolder:
        return self.run.pinned()

    @cached_property
    def _model(self) -> Model:
        return load(self._pinned, average=self.how.average)


def _name(wanted: ZeroShot, settings: dict[str, Any]) -> str:
    return f"zero-shot-{wanted.text.name}-{wanted.protocol}-{fingerprint(settings)}"


def choices(
    run: ModelFolder, file: Path, how: Evaluation, *, whole: bool, draws: int, progress: Progress | None = None
) -> tuple[Path, Accuracy]:
    """The file of the result, and the accuracy on a file of questions, with two groups of `draws` for each ending;
    finished parts are read, the others are computed.
    """
    run, every = run.pinned(), list(read_questions(file))
    numbers = spread(len(every), how.sequences or len(every))
    settings = {"file": file.name, "blake2b": digest(file, "blake2b"), "whole": whole, "draws": draws}
    settings |= {"estimator": how.estimator, "average": how.average, "seed": how.seed, "checkpoint": run.identity}
    settings |= {"masks": "by question", "rows": "spread"}  # kept answers of older versions are not read
    folder = run.results / EVALS / f"choices-{file.name.split('.')[0]}-{fingerprint(settings)}"
    model = load(run, average=how.average)
    if not whole:
        model.check_continuations()
    answered: list[Answered] = []
    for start in range(0, len(numbers), _QUESTIONS):
        asked = {int(number): every[number] for number in numbers[start : start + _QUESTIONS]}
        path = folder / f"part-{start:09d}-{start + len(asked):09d}.json"
        answered += _answers(model, asked, settings, path)
        if progress is not None:
            progress(len(answered), len(numbers))
    found, result = accuracy(answered), folder.with_name(f"{of_some(folder.name, len(numbers), len(every))}.json")
    write_json(result, settings | asdict(found) | {"of": len(every)})
    return result, found


def _answers(model: Model, questions: dict[int, Question], settings: dict[str, Any], path: Path) -> list[Answered]:
    """Answers to some questions, by their numbers, kept in a file."""
    if path.exists():
        return [_answered(**one) for one in read_kept(path)]
    found = answer(
        model.network,
        questions,
        model.estimator(settings["estimator"]),
        model.vocabulary,
        length=model.facts.shape[0],
        draws=settings["draws"],
        seed=settings["seed"],
        whole=settings["whole"],
    )
    answered = list(found)
    write_json(path, [asdict(one) for one in answered])
    return answered


def _answered(nats: list[float], sizes: list[int] | None, answer: int) -> Answered:
    """Rebuild an answer from its stored form."""
    return Answered(tuple(nats), None if sizes is None else tuple(sizes), answer)
