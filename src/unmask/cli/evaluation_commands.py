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
    """Options that eval and compare share."""

    split: str = "test"
    """Split to measure: train, valid or test."""
    data: Annotated[Path | None, optional("DIR")] = None
    """Folder of prepared data with the model's vocabulary. Default: the run's own; an exported model has none."""
    sequences: Annotated[int | None, optional("N")] = None
    """Measure only N sequences, spread evenly over the split; the result is kept beside that of the whole split."""
    estimator: Literal["exact-k", "controlled", "paper"] = "exact-k"
    """How to draw masks: exact-k (stratified), controlled (plus a control variate), paper (needs many more draws)."""
    draws: Annotated[int | None, optional("N")] = None
    """Masks per sequence in each repeat, spread over the time axis. Default: 4, or 16 with --choices."""
    repeats: Annotated[int | None, optional("N")] = None
    """Independent groups of draws, from which the error is estimated. Default: 4."""
    target_error: Annotated[float | None, optional("BITS")] = None
    """Choose the number of repeats that reaches this Monte Carlo error, in bits per token; without --repeats."""
    grid: Literal["uniform", "cosine"] = "uniform"
    """Time grid of the sampler; used with --steps only."""
    raw: bool = False
    """Use the raw weights instead of their moving average."""
    seed: int = 0
    """Seed for drawing the masks."""
    json: bool = False
    """Print the results as JSON and nothing else."""

    def evaluation(self, steps: int | None = None) -> "Evaluation":
        """The settings as the library takes them."""
        from unmask.run.evaluate import Evaluation

        both = self.repeats is not None and self.target_error is not None
        do = "leave one out"
        require(not both, "the target error decides the repeats", got="both", allowed="one of the two", do=do)
        numbers = {"draws": self.draws, "repeats": self.repeats}
        given = {name: number for name, number in numbers.items() if number is not None}
        return Evaluation(
            split=self.split,
            data=None if self.data is None else str(self.data),
            sequences=self.sequences,
            estimator=self.estimator,
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
"""What is measured, and the options that it uses."""


@dataclass(frozen=True, kw_only=True)
class Eval(EvaluationFlags):
    """Measure the likelihood of held-out data, with error bars.

    The result is in bits per token, character and byte, and as perplexity. If interrupted, run the same command again
    to resume. Sets for --text: lambada, wikitext2, ptb, wikitext103, lm1b, ag_news, arxiv, pubmed. The estimator named
    controlled fits a control variate on training data: fewer calls for many draws. Examples:
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
    """Folder of a run or of an exported model, hub:OWNER/NAME, or the name of a shipped model."""
    steps: Annotated[tuple[int, ...], tyro.conf.arg(metavar="T …", help_behavior_hint="")] = ()
    """Also measure the bounds of samplers with these numbers of steps; with --text, one number, and only its bound."""
    orders: Annotated[int | None, optional("K")] = None
    """Bracket the likelihood between two bounds from K random orders; takes one network call per token and order."""
    text: Annotated[str | None, optional("FILE|NAME|all")] = None
    """Measure a text that was not trained on: a file (lines, or JSON lines or Parquet with "text"), a set, or all."""
    sets: Annotated[Path | None, optional("DIR")] = None
    """Folder with files of the sets: NAME.txt, NAME.jsonl (or .gz, .xz) or NAME.parquet. Others come from the hub."""
    protocol: Literal["sedd", "mdlm", "md4"] = "sedd"
    """How rows of --text are cut into sequences: as in the papers on SEDD, MDLM or MD4."""
    detokeniser: Annotated[Detokeniser | None, optional("NAME")] = None
    """How --text becomes plain text: none, wikitext, ptb, lm1b, lambada, papers. Default: the set's; none for files."""
    choices: Annotated[Path | None, optional("FILE")] = None
    """Answer multiple-choice questions: JSON lines of question, choices, answer, or HellaSwag's format."""
    whole: bool = False
    """With --choices: score question and ending together, as the paper does, instead of the ending alone."""

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
        """Refuse options that would be ignored."""
        what = next((name for name in _USES if name and getattr(self, name) is not None), None)
        given = [field.name for field in fields(self) if getattr(self, field.name) != field.default]
        extra = ", ".join(flag(name) for name in given if name not in (*_ALWAYS, *_USES[what], what))
        title, allowed = (flag(what) if what else "a split"), ", ".join(map(flag, _USES[what]))
        require(not extra, f"{title} does not use this", got=extra, allowed=allowed, do="leave it out")
        _require_steps(self.grid, bool(self.steps))


def _require_steps(grid: str, steps: bool) -> None:
    """Refuse a grid for continuous time, which has none."""
    fine = steps or grid == EvaluationFlags.grid
    require(fine, "--grid has no effect without --steps", got=grid, allowed="none", do="add --steps, or leave it out")


@dataclass(frozen=True, kw_only=True)
class Compare(EvaluationFlags):
    """Compare two models on the same sequences and masks.

    The difference is reported with its own error, which is smaller than those of the two models.

    Example: unmask compare runs/md4 runs/genmd4 --split test
    """

    first: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="MODEL_A")]
    """Folder of a run or of an exported model, hub:OWNER/NAME, or the name of a shipped model."""
    second: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="MODEL_B")]
    """The model to compare it with."""
    steps: Annotated[int | None, optional("T")] = None
    """Compare the bounds of a sampler with T steps. Default: continuous time."""

    def run(self) -> int:
        _require_steps(self.grid, self.steps is not None)
        from . import evaluate

        return evaluate.run_comparison(self.first, self.second, self.evaluation(self.steps), self.json)


@dataclass(frozen=True)
class Score:
    """Colour each token of a text by how surprising it is.

    The bits of the tokens come from the bound, so they sum to the bound of the whole text. Examples:
      unmask score demo "The captain looked at the banana."
      unmask score demo letter.txt --html letter.html
    """

    model: MODEL
    """Folder of a run or of an exported model, hub:OWNER/NAME, or the name of a shipped model."""
    text: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="TEXT|FILE|-")]
    """The text itself, a text file, or - for the standard input."""
    draws: int = 16
    """Masks drawn in each repeat, spread over the time axis."""
    repeats: int = 4
    """Independent groups of draws, from which the error is estimated."""
    seed: int = 0
    """Seed for drawing the masks."""
    label: Annotated[str | None, optional("CLASS")] = None
    """Class of the text, by name or number, for a model with classes. Default: none is given."""
    html: Annotated[Path | None, optional("FILE")] = None
    """Write the heat map to an HTML page."""
    json: bool = False
    """Print the results as JSON and nothing else."""

    def run(self) -> int:
        from . import score

        how = {"draws": self.draws, "repeats": self.repeats, "seed": self.seed, "label": self.label}
        return score.run(self.model, self.text, how, self.html, self.json)


@dataclass(frozen=True)
class Frontier:
    """Plot sample quality against network calls, for many samplers.

    Every combination of sampler, steps and temperature is measured in the same way, with real data for comparison.
    Text is measured by its variety, by a 3-gram model of the training data and, with --judge and --checker, by
    generative perplexity, MAUVE and validity; images by the distance between features. If interrupted, run the same
    command again to resume. Examples:
      unmask frontier runs/book --samplers ancestral confidence --steps 8 32 128 -n 32
      unmask frontier runs/gpt2 --temperatures 0.8 0.9 1.0 --judge gpt2-large
      unmask frontier runs/cifar --features inception:weights-inception-2015-12-05-6726825d.pth -n 5000
      unmask frontier runs/molecules --checker smiles
    """

    model: MODEL
    """Folder of a run or of an exported model, hub:OWNER/NAME, or the name of a shipped model."""
    samplers: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME …")] = ("ancestral",)
    """Names from unmask samplers, options after a colon (first-hitting:tokens_per_call=4); all: every one that fits."""
    steps: Annotated[tuple[int, ...], tyro.conf.arg(metavar="T …")] = (8, 16, 32, 64, 128)
    """Numbers of steps, for samplers that use a time grid."""
    temperatures: Annotated[tuple[float, ...], tyro.conf.arg(metavar="X …")] = (1.0,)
    """Sampling temperatures; below 1: more likely tokens, less variety."""
    count: Annotated[int, tyro.conf.arg(metavar="N", aliases=["-n"])] = 64
    """Samples for each combination."""
    split: str = "test"
    """Split of real data to compare with: train, valid or test."""
    data: Annotated[Path | None, optional("DIR")] = None
    """Folder of prepared data with the model's vocabulary. Default: the run's own; an exported model has none."""
    judge: Annotated[str | None, optional("MODEL")] = None
    """Judge text by a causal Hugging Face model (a folder or an id), or a run with --method ar and the same tokens."""
    features: str = "pixels"
    """Features of images to compare: pixels, inception:FILE (the distance is then FID), or MODULE:FUNCTION."""
    checker: Annotated[str | None, optional("NAME")] = None
    """Check samples of text for validity: brackets, sudoku or smiles."""
    seed: int = 0
    """Random seed; sample i depends only on the seed and i."""
    batch_size: int = 64
    """Samples drawn at once."""
    out: Annotated[Path | None, optional("DIR")] = None
    """Output folder. Default: RUN/frontier, or results/MODEL/frontier for a model that is not a run."""
    json: bool = False
    """Print the results as JSON and nothing else."""

    def run(self) -> int:
        from unmask.run.frontier import Frontier as Wanted

        from . import frontier

        wanted = Wanted(self.samplers, self.steps, self.temperatures, self.count, self.seed, self.batch_size)
        by = frontier.By(self.judge, self.features, self.checker)
        real = frontier.Real(self.split, None if self.data is None else str(self.data))
        return frontier.run(self.model, wanted, by, real, self.out, self.json)


@dataclass(frozen=True)
class Check:
    """Count the samples in a file that are valid, unique and novel.

    Each share is reported with its binomial error. The model is not needed, so samples can be drawn on one machine and
    checked on another. Examples:
      unmask sample runs/molecules -n 10000 --out samples.json
      unmask check samples.json --checker smiles --data data/molecules
    """

    samples: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="FILE")]
    """A .json file written by unmask sample, or any file with one sample per line."""
    checker: str
    """What to check: brackets, sudoku or smiles."""
    data: Annotated[Path | None, optional("DIR")] = None
    """Folder of prepared data; samples that are not in its training split count as novel."""
    json: bool = False
    """Print the shares as JSON and nothing else."""

    def run(self) -> int:
        from . import check

        return check.run(self.samples, self.checker, self.data, self.json)
