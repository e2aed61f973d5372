"""What each part of the recipe for text8 by subwords does, measured alone: a base, and runs that differ in one thing.

    python -m benchmarks.explorations data/bpe16384 runs --seconds 60 --seeds 0 1
    python -m benchmarks.explorations data/bpe16384 runs --only adamw dropout

Every run is one of `benchmarks.text8_speedrun` with a JSON of its own; runs that are there are not trained again. Each
is compared with the base of its seed, token by token of the same validation text under the same masks: what is hard
about a text, or about a mask, cancels, so differences are known better than the bits of either.
"""

import argparse
import gc
import shlex
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from unmask.evaluation import compare
from unmask.run import Run
from unmask.run.evaluate import Evaluation, Result, evaluate
from unmask.run.folder import CONFIG

from . import text8_speedrun
from .record import Record, plainly

DRAWS = 4
"""Masks of a sequence, spread together; two such groups."""


@dataclass(frozen=True)
class Trial:
    """One thing that is done in another way."""

    about: str
    flags: str = ""
    """That come after the shared ones."""
    without: str = ""
    """A shared one that is left out."""

    def words(self) -> list[str]:
        """As `benchmarks.text8_speedrun` takes them."""
        return [word for word in SHARED.split() if word != self.without] + shlex.split(self.flags)


BASE = "base"
SHARED = "--mlp relu2 --tied --batch-size 256 --muon-rate 6e-3"
TRIALS = {
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
    "decay": Trial("weight decay 0.2", "--weight-decay 0.2"),
    "late": Trial("the rate falls over the last 30 %", "--cooldown-share 0.3"),
    "early": Trial("the rate falls from the start", "--cooldown-share 1"),
    "cosine": Trial("the rate falls as a cosine", "--cooldown cosine"),
    "values": Trial("values of the first layer in all others", "--network value-residuals"),
    "batch128": Trial("batch 128", "--batch-size 128"),
    "batch512": Trial("batch 512", "--batch-size 512"),
    "growing": Trial("batch 128 before the rate falls", "--first='--batch-size 128'"),
    "lengthening": Trial("512 windows of 128 before the rate falls", "--first='--length 128 --batch-size 512'"),
}
"""By name, the base first."""


def folder_of(root: Path, trial: str, seed: int) -> Path:
    """The run of a trial."""
    return root / f"{trial}-{seed}"


def train(data: str, root: Path, trial: str, seed: int, seconds: float, sequences: int, given: list[str]) -> None:
    """Unless it was; a run has its configuration when it is trained. Compiled code and memory do not outlive it."""
    if (folder_of(root, trial, seed) / CONFIG).exists():
        return
    words = [f"alone-{trial}", data, str(folder_of(root, trial, seed)), "--seconds", f"{seconds:g}"]
    words += ["--seed", str(seed), "--sequences", str(sequences), "--draws", str(DRAWS)]
    text8_speedrun.main([*words, "--about", TRIALS[trial].about, *TRIALS[trial].words(), *given])
    torch.compiler.reset()
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def measured(root: Path, trial: str, seed: int, sequences: int) -> Result:
    """As it was after training: what was scored then is kept."""
    wanted = Evaluation("valid", sequences=sequences, draws=DRAWS, repeats=2)
    return evaluate(Run.open(folder_of(root, trial, seed)), wanted)


def row(trial: str, base: Result, found: Result) -> dict[str, Any]:
    """A trial against the base of its seed, in bits per character."""
    difference = compare(found.scores, base.scores)
    ratio = base.bits()["character"].mean / base.bits()["token"].mean
    return {
        "trial": trial,
        "about": TRIALS[trial].about,
        "bits_per_character": asdict(found.bits()["character"]),
        "difference": {"mean": difference.mean * ratio, "error": difference.error * ratio},
    }


def main() -> None:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form, allow_abbrev=False)
    parser.add_argument("data")
    parser.add_argument("runs", type=Path, help="where the runs are kept")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--sequences", type=int, default=2000)
    parser.add_argument("--only", nargs="+", choices=TRIALS, default=list(TRIALS), help="besides the base")
    options, given = parser.parse_known_args()
    for seed in options.seeds:
        base: Result | None = None
        for trial in dict.fromkeys([BASE, *options.only]):
            record = Record(f"explorations/{trial}-{seed}", seed)
            train(options.data, options.runs, trial, seed, options.seconds, options.sequences, given)
            found = measured(options.runs, trial, seed, options.sequences)
            base = base or found
            record.write(seconds=options.seconds, sequences=options.sequences, **row(trial, base, found))


if __name__ == "__main__":
    plainly(main)
