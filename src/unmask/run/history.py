"""The state of a run: its progress, its last held-out bound, and its evaluations."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..files import read_json
from ..training import Bits, checkpoint
from .folder import EVALS, ModelFolder, Run

Document = dict[str, Any]


@dataclass(frozen=True)
class History:
    """The progress of a run."""

    step: int
    """Steps done."""
    steps: int
    """Steps of the whole run."""
    loss: float | None
    """Mean training loss of the last steps, bits per token."""
    held_out: Bits | None
    held_out_step: int | None
    """The step at which that bound was measured."""

    @classmethod
    def of(cls, run: Run, until: int | None = None) -> "History":
        """Read it from the logged metrics, up to a step."""
        lines = [line for line in run.metrics() if until is None or line["step"] <= until]
        taken = [line for line in lines if "validation" in line]
        losses = [line["loss"] for line in lines[-_LAST:]]
        return cls(
            lines[-1]["step"] if lines else 0,
            run.config.training.steps,
            sum(losses) / len(losses) if losses else None,
            _held_out(**taken[-1]["validation"]) if taken else None,
            taken[-1]["step"] if taken else None,
        )


def _held_out(mean: float, error: float | None, split: str) -> Bits:
    """From JSON, which has no NaN."""
    return Bits(mean, math.nan if error is None else error, split)


_LAST = 50
"""Steps whose loss is averaged."""


@dataclass(frozen=True)
class Measured:
    """A result, and the weights it was measured with."""

    line: str
    checkpoint: str | None
    average: bool | None


def evaluations(model: ModelFolder) -> list[Measured]:
    """The stored results for a model."""
    return [_measured(path) for path in sorted((model.results / EVALS).glob("*.json"))]


def _measured(path: Path) -> Measured:
    found = read_json(path)
    document = found if isinstance(found, dict) else {}
    return Measured(_line(path, document), document.get("checkpoint"), document.get("average"))


def _line(path: Path, document: Document) -> str:
    try:
        return next(sentence for key, sentence in SENTENCES.items() if key in document)(document)
    except (StopIteration, KeyError, TypeError, ValueError):  # written by another version, or edited by hand
        return f"{path.name}: a result of another kind"


def _choices(document: Document) -> str:
    share = f"{document['accuracy']:.1%} ± {document['error']:.1%}"
    return f"{document['file']}: accuracy {share}{_some(document, 'questions')}"


def _orders(document: Document) -> str:
    figure = document["tighter_bound"]
    return f"{document['split']}, {document['orders']} orders: {_bits(figure)}"


def _zero_shot(document: Document) -> str:
    value = document["perplexity"]
    interval = f"{value['value']:.2f} ({value['low']:.2f}–{value['high']:.2f})"
    some = _some(document, "sequences")
    return f"{document['set']}: perplexity {interval} per token, protocol {document['protocol']}{some}"


def _likelihood(document: Document) -> str:
    steps = "" if document["steps"] is None else f", {document['steps']:,} steps"
    data = "" if document["data"] is None else f" of {Path(document['data']).name}"
    return f"{document['split']}{data}{steps}: {_bits(document['bits_per_token'])}{_some(document, 'sequences')}"


def _some(document: Document, what: str) -> str:
    """How many were measured, if not all of them."""
    count, of = document[what], document.get("of")  # missing if another version wrote it
    return "" if of in (None, count) else f", {count:,} of {of:,} {what}"


def _bits(figure: Document) -> str:
    error = "" if figure["error"] is None else f" ± {figure['error']:.4f}"
    return f"{figure['mean']:.4f}{error} bits per token"


SENTENCES: dict[str, Callable[[Document], str]] = {
    "accuracy": _choices,
    "tighter_bound": _orders,
    "protocol": _zero_shot,
    "bits_per_token": _likelihood,
}
"""By a key that only this kind of result has; the first match counts."""


def checkpoints(run: Run) -> list[str]:
    """The names of the stored checkpoints, oldest first."""
    return [checkpoint.name_of(step) for step in checkpoint.steps_in(run.checkpoints)]
