"""What each part of a recipe for text8 contributes: a base, and runs that differ from it in one thing.

    python -m benchmarks.explorations data/bpe16384 runs --seconds 60 --seeds 0 1
    python -m benchmarks.explorations data/bpe16384 runs --only adamw dropout
    python -m benchmarks.explorations data/text8 runs --recipe characters

Every run is a run of `benchmarks.text8_speedrun` with its own JSON; existing runs are not trained again. Each is
compared with the base of its seed, token by token on the same validation text under the same masks. The difficulty of a
text or of a mask cancels, so the differences are known more precisely than the bits of either run.
"""

import argparse
import gc
import shlex
from dataclasses import dataclass
from pathlib import Path

import torch

from unmask.evaluation import compare
from unmask.mistakes import require
from unmask.run import Run
from unmask.run.evaluate import Evaluation, Result, evaluate
from unmask.run.folder import CONFIG

from . import text8_speedrun
from .record import Record, plainly

DRAWS = 4
"""Masks per sequence that are spread out together; there are two such groups."""


@dataclass(frozen=True)
class Trial:
    """One change to the base."""

    about: str
    flags: str = ""
    """Flags that are added after the shared ones."""
    without: str = ""
    """A shared flag that is left out."""


@dataclass(frozen=True)
class Recipe:
    """A base and the changes to it."""

    shared: str
    """Flags of all runs."""
    trials: dict[str, Trial]
    """Trials by name, the base first."""

    def flags(self, trial: str) -> list[str]:
        """The flags of one run."""
        tried = self.trials[trial]
        return [word for word in self.shared.split() if word != tried.without] + shlex.split(tried.flags)


BASE = "base"
ANYWHERE = {
    "decay": Trial("weight decay 0.2", "--weight-decay 0.2"),
    "late": Trial("the rate falls over the last 30 %", "--cooldown-share 0.3"),
    "values": Trial("values of the first layer in all others", "--network value-residuals"),
    "heads4": Trial("4 heads of 128 instead of 8 of 64", "--heads 4"),
    "rest-fast": Trial("AdamW 6e-3 for what Muon leaves", "--rate 6e-3"),
    "rest-slow": Trial("AdamW 7e-4 for what Muon leaves", "--rate 7e-4"),
    "batch128": Trial("batch 128", "--batch-size 128"),
}
"""Changes that both recipes know."""
SUBWORDS = {
    BASE: Trial("8 x 512, squared ReLU, one table, batch 256, Muon 6e-3"),
    "adamw": Trial("AdamW 1e-3 instead of Muon", "--optimizer adamw --rate 1e-3"),
    "adamw-fast": Trial("AdamW 3e-3 instead of Muon", "--optimizer adamw --rate 3e-3"),
    "independent": Trial("independent masks at low-discrepancy times", "--masks independent"),
    "bound": Trial("the bound's weights", "--weighting elbo"),
    "bell": Trial("masked share Beta(1.5, 1.5)", "--k-law bell --k-bell 1.5 1.5"),
    "gated": Trial("gated MLP", "--mlp gated"),
    "untied": Trial("two tables", without="--tied"),
    "plain": Trial("no moving average", "--average 0"),
    "dropout": Trial("dropout 0.1", "--dropout 0.1"),
    "early": Trial("the rate falls from the start", "--cooldown-share 1"),
    "cosine": Trial("the rate falls as a cosine", "--cooldown cosine"),
    "batch512": Trial("batch 512", "--batch-size 512"),
    "growing": Trial("batch 128 before the rate falls", "--first='--batch-size 128'"),
    "lengthening": Trial("512 windows of 128 before the rate falls", "--first='--length 128 --batch-size 512'"),
    **ANYWHERE,
}
CHARACTERS = {
    BASE: Trial("8 x 512, squared ReLU, batch 256, Muon 1e-2, spaces with exponent 30, masked share Beta(1.5, 1.5)"),
    "uniform": Trial("masked share uniform", "--k-law uniform"),
    "rate20": Trial("Muon 2e-2", "--muon-rate 2e-2"),
    **ANYWHERE,
}
RECIPES = {
    "subwords": Recipe("--mlp relu2 --tied --batch-size 256 --muon-rate 6e-3", SUBWORDS),
    "characters": Recipe(
        "--mlp relu2 --batch-size 256 --muon-rate 1e-2 --exponents 0 30 --k-law bell --k-bell 1.5 1.5",
        CHARACTERS,
    ),
}


@dataclass(frozen=True)
class Budget:
    """What all runs of a comparison share."""

    recipe: str
    data: str
    root: Path
    """The folder for the runs."""
    seconds: float
    sequences: int
    given: list[str]
    """Further flags."""

    def folder(self, trial: str, seed: int) -> Path:
        """The run folder of a trial."""
        return self.root / f"{self.recipe}-{trial}-{seed}"

    def words(self, trial: str, seed: int) -> list[str]:
        """The arguments for `benchmarks.text8_speedrun`."""
        recipe = RECIPES[self.recipe]
        words = [self.name(trial), self.data, str(self.folder(trial, seed)), "--seed", str(seed)]
        words += ["--seconds", f"{self.seconds:g}", "--sequences", str(self.sequences), "--draws", str(DRAWS)]
        return [*words, "--about", recipe.trials[trial].about, *recipe.flags(trial), *self.given]

    def name(self, trial: str) -> str:
        """The name of its record."""
        return f"explorations/{self.recipe}/{trial}"


def train(alike: Budget, trial: str, seed: int) -> Record:
    """Train unless that was done before (a trained run has a configuration), then free compiled code and memory."""
    record = Record(f"{alike.name(trial)}-{seed}", seed)
    if record.path.exists() and (alike.folder(trial, seed) / CONFIG).exists():
        return record
    text8_speedrun.main(alike.words(trial, seed))
    torch.compiler.reset()
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    return record


def measured(alike: Budget, trial: str, seed: int) -> Result:
    """The scores as computed after training, which are stored."""
    wanted = Evaluation("valid", sequences=alike.sequences, draws=DRAWS, repeats=2)
    return evaluate(Run.open(alike.folder(trial, seed)), wanted)


def difference(base: Result, found: Result) -> dict[str, float]:
    """The difference between a trial and the base of its seed, in bits per character."""
    apart = compare(found.scores, base.scores)
    ratio = base.bits()["character"].mean / base.bits()["token"].mean
    return {"mean": apart.mean * ratio, "error": apart.error * ratio}


def main() -> None:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form, allow_abbrev=False)
    parser.add_argument("data")
    parser.add_argument("runs", type=Path, help="folder for the runs")
    parser.add_argument("--recipe", choices=RECIPES, default="subwords")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--sequences", type=int, default=2000)
    parser.add_argument("--only", nargs="+", help="trials to run besides the base (default: all)")
    options, given = parser.parse_known_args()
    trials = RECIPES[options.recipe].trials
    only = options.only or list(trials)
    for trial in only:
        require(trial in trials, "unknown trial", got=trial, allowed=", ".join(trials), do="name some of them")
    alike = Budget(options.recipe, options.data, options.runs, options.seconds, options.sequences, given)
    for seed in options.seeds:
        base: Result | None = None
        for trial in dict.fromkeys([BASE, *only]):
            record = train(alike, trial, seed)
            found = measured(alike, trial, seed)
            base = base or found
            record.add(trial=trial, difference=difference(base, found))


if __name__ == "__main__":
    plainly(main)
