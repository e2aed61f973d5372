"""The commands that measure a model: eval, compare, score, frontier, check."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from unmask.mistakes import flag, require

from .flags import MODEL, optional

if TYPE_CHECKING:
    from unmask.run.evaluate import Evaluation


Detokeniser = Literal["none", "wikitext", "ptb", "lm1b", "lambada", "papers"]


@dataclass(frozen=True, kw_only=True)
class EvaluationFlags:
    """What eval and compare have in common."""

    split: str = "test"
    """train, valid or test."""
    data: Annotated[Path | None, optional("DIR")] = None
    """A folder of prepared data with the model's vocabulary. Default: the run's own; an exported model has none."""
    sequences: Annotated[int | None, optional("N")] = None
    """Only N, spread evenly over the split; their figures are kept beside those of all."""
    estimator: Literal["exact-k", "controlled", "paper"] = "exact-k"
    """How masks are drawn: stratified exact-k, the same with a control variate fitted on training data (fewer calls
    for many draws), or the paper's way, which needs many more."""
    draws: Annotated[int | None, optional("N")] = None
    """Evaluations of a sequence spread over the time axis together. Default: 4, and 16 for --choices."""
    repeats: int = 4
    """Independent groups of them, for the error."""
    target_error: Annotated[float | None, optional("BITS")] = None
    """Choose the repeats for this Monte-Carlo error in bits per token."""
    grid: Literal["uniform", "cosine"] = "uniform"
    """Of the steps, where --steps are given."""
    raw: bool = False
    """The plain weights instead of their average."""
    seed: int = 0
    """Of the masks."""
    json: bool = False
    """Print the figures as JSON and nothing else."""

    def evaluation(self, steps: int | None = None) -> "Evaluation":
        """As the library wants it."""
        from unmask.run.evaluate import Evaluation

        given = {} if self.draws is None else {"draws": self.draws}
        return Evaluation(
            split=self.split,
            data=None if self.data is None else str(self.data),
            sequences=self.sequences,
            estimator=self.estimator,
            repeats=self.repeats,
            target_error=self.target_error,
            steps=steps,
            grid=self.grid,
            average=not self.raw,
            seed=self.seed,
            **given,
        )


_ALWAYS = ("model", "sequences", "raw", "seed", "json")
_USES = {
    "text": ("sets", "protocol", "detokeniser", "estimator", "draws", "repeats", "steps", "grid"),
    "choices": ("whole", "estimator", "draws"),
    "orders": ("split", "data"),
    None: ("split", "data", "estimator", "draws", "repeats", "target_error", "steps", "grid"),
}
"""What is measured, and the flags that it has a use for."""


@dataclass(frozen=True, kw_only=True)
class Eval(EvaluationFlags):
    """Measure the likelihood of held-out data, with error bars.

    In bits per token, character and byte, and as perplexity. Stopped, the same command goes on. Examples:
      unmask eval runs/shakespeare
      unmask eval runs/shakespeare --split valid --target-error 0.005
      unmask eval runs/shakespeare --steps 100 1000 10000
      unmask eval runs/shakespeare --orders 8 --sequences 16
      torchrun --nproc-per-node 8 -m unmask eval runs/gpt2
      unmask eval runs/gpt2 --text wiki.test.tokens --detokeniser wikitext --protocol sedd
      unmask eval runs/gpt2 --text lambada
      unmask eval runs/gpt2 --text all --sets downloads
      unmask eval runs/gpt2 --choices hellaswag_val.jsonl
    """

    model: MODEL
    """The folder of a run or an exported model, hub:OWNER/NAME, or the name of a shipped model."""
    steps: Annotated[tuple[int, ...], tyro.conf.arg(metavar="T …")] = ()
    """The bounds of samplers with so many steps, beside that in continuous time; with --text that of one of them."""
    orders: Annotated[int | None, optional("K")] = None
    """Hold the likelihood between two bounds from K random orders; a network call for each token and order."""
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
        self._require_used()
        from . import evaluate, zero_shot

        if self.text is not None or self.choices is not None or self.orders is not None:
            evaluate.require_one_rank()
        if self.text is not None:
            how = self.evaluation(evaluate.only_steps(self.steps))
            return zero_shot.run(self.model, self.text, self.sets, self.protocol, self.detokeniser, how, self.json)
        if self.choices is not None:
            draws = 16 if self.draws is None else self.draws
            return evaluate.run_choices(self.model, self.choices, self.whole, self.evaluation(), draws, self.json)
        if self.orders is not None:
            return evaluate.run_orders(self.model, self.evaluation(), self.orders, self.json)
        return evaluate.run(self.model, [self.evaluation(steps) for steps in (None, *self.steps)], self.json)

    def _require_used(self) -> None:
        """A flag that would be ignored is refused."""
        what = next((name for name in _USES if name and getattr(self, name) is not None), None)
        given = [field.name for field in fields(self) if getattr(self, field.name) != field.default]
        extra = ", ".join(flag(name) for name in given if name not in (*_ALWAYS, *_USES[what], what))
        title, allowed = (flag(what) if what else "a split"), ", ".join(map(flag, _USES[what]))
        require(not extra, f"{title} has no use for this", got=extra, allowed=allowed, do="leave it out")
        _require_steps(self.grid, bool(self.steps))


def _require_steps(grid: str, steps: bool) -> None:
    """Continuous time has no grid."""
    fine = steps or grid == EvaluationFlags.grid
    require(fine, "--grid has no use without --steps", got=grid, allowed="none", do="add --steps, or leave it out")


@dataclass(frozen=True, kw_only=True)
class Compare(EvaluationFlags):
    """Compare two models on the same sequences and masks.

    The difference comes with its error, which is smaller than those of the two.

    Example: unmask compare runs/md4 runs/genmd4 --split test
    """

    first: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="MODEL_A")]
    """The folder of a run or an exported model, hub:OWNER/NAME, or the name of a shipped model."""
    second: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="MODEL_B")]
    """Another one."""
    steps: Annotated[int | None, optional("T")] = None
    """The bounds of a sampler with T steps. Default: continuous time."""

    def run(self) -> int:
        _require_steps(self.grid, self.steps is not None)
        from . import evaluate

        return evaluate.run_comparison(self.first, self.second, self.evaluation(self.steps), self.json)


@dataclass(frozen=True)
class Score:
    """Show how surprising each token of a text is, as colours.

    Bits from the bound, so that they sum to the text's. Examples:
      unmask score demo "The captain looked at the banana."
      unmask score demo letter.txt --html letter.html
    """

    model: MODEL
    """The folder of a run or an exported model, hub:OWNER/NAME, or the name of a shipped model."""
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


@dataclass(frozen=True)
class Frontier:
    """Draw quality against network calls, for many samplers.

    Samplers × steps × temperatures are judged alike, with real data beside them. Text is judged by its variety, by a
    3-gram model of the training data and, with --judge, by generative perplexity and MAUVE; pictures by the distance
    of their features; anything by a checker. Stopped, the same command goes on. Examples:
      unmask frontier runs/book --samplers ancestral confidence --steps 8 32 128 -n 32
      unmask frontier runs/gpt2 --temperatures 0.8 0.9 1.0 --judge gpt2-large
      unmask frontier runs/cifar --features inception:weights-inception-2015-12-05-6726825d.pth -n 5000
      unmask frontier runs/molecules --checker smiles
    """

    model: MODEL
    """The folder of a run or an exported model, hub:OWNER/NAME, or the name of a shipped model."""
    samplers: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME …")] = ("ancestral",)
    """See unmask samplers; options after a colon (first-hitting:tokens_per_call=4); all: every one that fits."""
    steps: Annotated[tuple[int, ...], tyro.conf.arg(metavar="T …")] = (8, 16, 32, 64, 128)
    """For samplers that walk along a grid."""
    temperatures: Annotated[tuple[float, ...], tyro.conf.arg(metavar="X …")] = (1.0,)
    """Below 1: more likely tokens, less variety."""
    count: Annotated[int, tyro.conf.arg(metavar="N", aliases=["-n"])] = 64
    """Samples of each."""
    split: str = "test"
    """Real data to compare with: train, valid or test."""
    data: Annotated[Path | None, optional("DIR")] = None
    """A folder of prepared data with the model's vocabulary. Default: the run's own; an exported model has none."""
    judge: Annotated[str | None, optional("MODEL")] = None
    """A causal language model of Hugging Face, a folder or an id; or a run with --method ar and the same tokens."""
    features: str = "pixels"
    """Of pictures: pixels, inception:FILE (then the distance is FID), or MODULE:FUNCTION."""
    checker: Annotated[str | None, optional("NAME")] = None
    """brackets, sudoku or smiles."""
    seed: int = 0
    """Sample i depends on the seed and i only."""
    batch_size: int = 64
    """Samples at once."""
    out: Annotated[Path | None, optional("DIR")] = None
    """Where to write. Default: RUN/frontier, or results/MODEL/frontier for a model that is not a run."""
    json: bool = False
    """Print the figures as JSON and nothing else."""

    def run(self) -> int:
        from unmask.run.frontier import Frontier as Wanted

        from . import frontier

        wanted = Wanted(self.samplers, self.steps, self.temperatures, self.count, self.seed, self.batch_size)
        by = frontier.By(self.judge, self.features, self.checker)
        real = frontier.Real(self.split, None if self.data is None else str(self.data))
        return frontier.run(self.model, wanted, by, real, self.out, self.json)


@dataclass(frozen=True)
class Check:
    """Count the samples of a file that are right, different, and new.

    Each share comes with its binomial error. The model is not needed, so samples can be drawn on one machine and
    checked on another. Examples:
      unmask sample runs/molecules -n 10000 --out samples.json
      unmask check samples.json --checker smiles --data data/molecules
    """

    samples: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="FILE")]
    """A .json that unmask sample wrote, or any file with one sample per line."""
    checker: str
    """brackets, sudoku or smiles."""
    data: Annotated[Path | None, optional("DIR")] = None
    """A folder of prepared data: what is not in its training split is new."""
    json: bool = False
    """Print the shares as JSON and nothing else."""

    def run(self) -> int:
        from . import check

        return check.run(self.samples, self.checker, self.data, self.json)
