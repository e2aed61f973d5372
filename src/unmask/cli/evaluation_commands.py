"""The commands that measure a model: eval, compare, score."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from .flags import optional

if TYPE_CHECKING:
    from unmask.run.evaluate import Evaluation


Detokeniser = Literal["none", "wikitext", "ptb", "lm1b", "lambada", "papers"]


@dataclass(frozen=True, kw_only=True)
class EvaluationFlags:
    """What eval and compare have in common."""

    split: str = "test"
    """train, valid or test."""
    data: Annotated[Path | None, optional("DIR")] = None
    """A folder of prepared data with the model's vocabulary. Default: the run's own."""
    sequences: Annotated[int | None, optional("N")] = None
    """Only the first N."""
    estimator: Literal["exact-k", "paper"] = "exact-k"
    """How masks are drawn: stratified exact-k, or the paper's way, which needs many more network calls."""
    draws: int = 4
    """Evaluations of a sequence spread over the time axis together."""
    repeats: int = 4
    """Independent groups of them, for the error."""
    target_error: Annotated[float | None, optional("BITS")] = None
    """Choose the repeats for this Monte-Carlo error in bits per token."""
    steps: Annotated[int | None, optional("T")] = None
    """The bound of a sampler with T steps. Default: continuous time."""
    raw: bool = False
    """The plain weights instead of their average."""
    seed: int = 0
    """Of the masks."""
    json: bool = False
    """Print the figures as JSON and nothing else."""

    def evaluation(self) -> "Evaluation":
        """As the library wants it."""
        from unmask.run.evaluate import Evaluation

        return Evaluation(
            split=self.split,
            data=None if self.data is None else str(self.data),
            sequences=self.sequences,
            estimator=self.estimator,
            draws=self.draws,
            repeats=self.repeats,
            target_error=self.target_error,
            steps=self.steps,
            average=not self.raw,
            seed=self.seed,
        )


@dataclass(frozen=True, kw_only=True)
class Eval(EvaluationFlags):
    """Measure the likelihood of held-out data: bits per token, character and byte, and perplexity, with error bars.

    Stopped, the same command goes on. Examples:
      unmask eval runs/shakespeare
      unmask eval runs/shakespeare --split valid --target-error 0.005
      unmask eval runs/shakespeare --steps 1000
      unmask eval runs/gpt2 --text wiki.test.tokens --detokeniser wikitext --protocol sedd
      unmask eval runs/gpt2 --text lambada
      unmask eval runs/gpt2 --text all --sets downloads
      unmask eval runs/gpt2 --choices hellaswag_val.jsonl
    """

    model: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """The folder of a run."""
    text: Annotated[str | None, optional("FILE|NAME|all")] = None
    """A text the model was not trained on, measured by a named protocol: a file (lines, or JSON lines or Parquet with
    "text"), one of lambada, wikitext2, ptb, wikitext103, lm1b, ag_news, arxiv, pubmed, or all of these."""
    sets: Annotated[Path | None, optional("DIR")] = None
    """Where files of these sets lie: NAME.txt, NAME.jsonl (or .gz, .xz) or NAME.parquet. Others come from the hub."""
    protocol: Literal["sedd", "mdlm", "md4"] = "sedd"
    """How rows of that text become sequences."""
    detokeniser: Annotated[Detokeniser | None, optional("NAME")] = None
    """How its rows become plain text first: none, wikitext, ptb, lm1b, lambada or papers. Default: a set's own, none
    for files."""
    choices: Annotated[Path | None, optional("FILE")] = None
    """Multiple choice: JSON lines of question, choices, answer, or HellaSwag's own."""
    whole: bool = False
    """Score question and ending together, as the paper does, instead of the ending alone."""

    def run(self) -> int:
        """Imported here so that `unmask --help` does not wait for torch."""
        from . import evaluate, zero_shot

        if self.text is not None:
            return zero_shot.run(
                self.model, self.text, self.sets, self.protocol, self.detokeniser, self.evaluation(), self.json
            )
        if self.choices is not None:
            return evaluate.run_choices(self.model, self.choices, self.whole, self.evaluation(), self.json)
        return evaluate.run(self.model, self.evaluation(), self.json)


@dataclass(frozen=True, kw_only=True)
class Compare(EvaluationFlags):
    """Compare two models on the same sequences and the same masks: the difference with its error.

    Example: unmask compare runs/md4 runs/genmd4 --split test
    """

    first: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN_A")]
    """The folder of a run."""
    second: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN_B")]
    """The folder of another."""

    def run(self) -> int:
        from . import evaluate

        return evaluate.run_comparison(self.first, self.second, self.evaluation(), self.json)


@dataclass(frozen=True)
class Score:
    """Show how surprising each token of a text is to a model, as colours.

    Examples:
      unmask score runs/shakespeare "To be or not to be"
      unmask score runs/shakespeare letter.txt --html letter.html
    """

    model: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """The folder of a run."""
    text: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="TEXT|FILE")]
    """The text itself, or a file with it."""
    draws: int = 16
    """Evaluations spread over the time axis together."""
    repeats: int = 4
    """Independent groups of them."""
    seed: int = 0
    """Of the masks."""
    html: Annotated[Path | None, optional("FILE")] = None
    """Write the heat-map as a page."""
    json: bool = False
    """Print the figures as JSON and nothing else."""

    def run(self) -> int:
        from . import score

        return score.run(self.model, self.text, self.draws, self.repeats, self.seed, self.html, self.json)
