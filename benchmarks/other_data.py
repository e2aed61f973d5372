"""Molecules, proteins and chorales with the settings of the recipes: the bound, n-gram references, and samples.

    python -m benchmarks.other_data molecules|proteins|chorales DATA RUN --seed 0
    python -m benchmarks.other_data validity DATA RUN

DATA is the folder that the recipe prepares. The sampled molecules are stored in RUN/samples.json; `validity` checks
them on any machine that has RDKit.
"""

import argparse
import shlex
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from unmask.cli.main import main as unmask
from unmask.data import Dataset, Split
from unmask.evaluation import NGram, Scores, bits, find_checker, forms, frequencies, per_unit, validity
from unmask.evaluation.sample_metrics import Samples, frequencies_near, judged, under_ngram, variety
from unmask.networks import cost
from unmask.run import Run, Sampling, load
from unmask.run.check import read_samples, texts_of
from unmask.run.evaluate import Evaluation, evaluate
from unmask.run.frontier import samples_of

from .record import Record

COUNTED = 5_000_000
"""Training tokens that the n-gram models count."""
VOICES = 4

Figures = dict[str, Any]
Rows = NDArray[np.bool_]
"""A selection of rows of the test split."""


@dataclass(frozen=True)
class Setting:
    """How to train on a data set and measure the result."""

    flags: str
    """Flags of `unmask train`, as in the recipe."""
    unit: str
    """What a token stands for."""
    orders: tuple[int, ...]
    """Orders of the n-gram models."""
    evaluation: Evaluation
    look: Callable[[Path, Dataset, int, int], Figures]
    """Further measurements of a trained model: (run, data, seed, samples) → figures."""
    samples: int
    groups: Callable[[Dataset], dict[str, Rows]]
    """Groups of rows of the test split that get their own figures."""


# ------------------------------------------------------------------------------------------ n-gram references


def with_ends(split: Split) -> NDArray[np.int64]:
    """Rows joined end to end, each with an end token, until enough tokens are counted."""
    count = int(np.searchsorted(np.cumsum(split.lengths), COUNTED)) + 1
    rows = np.arange(min(count, len(split)))
    ends = np.full((len(rows), 1), split.fill)
    tokens = np.concatenate([split.read(rows).tokens, ends], axis=1)
    found: NDArray[np.int64] = tokens[np.arange(tokens.shape[1]) <= split.lengths[rows, None]]
    return found


def under_counts(dataset: Dataset, order: int, sequences: int | None) -> Scores:
    """Scores of the test split under an n-gram model that sees where a row begins."""
    train, test = dataset.split("train"), dataset.split("test")
    model = NGram(with_ends(train), order, dataset.vocabulary.size)
    rows = np.sort(test.spread(sequences))
    sizes = test.lengths[rows]
    tokens = test.read(rows).tokens
    begun = (np.append(test.fill, row[:size]) for row, size in zip(tokens, sizes, strict=True))
    nats = np.array([-np.log(model.probs(row)[1:]).sum() for row in begun])
    return Scores(nats, np.zeros(len(nats)), sizes, 0)


def everything(dataset: Dataset) -> dict[str, Rows]:
    """The whole test split."""
    return {"all": np.ones(len(dataset.split("test")), dtype=bool)}


def by_relation(dataset: Dataset, length: int = 10) -> dict[str, Rows]:
    """All rows, and the strangers: rows that share no run of `length` tokens with the training split."""
    train, test = dataset.split("train"), dataset.split("test")
    known = np.unique(_runs(train.stream(0, train.tokens), length, dataset.vocabulary.size))
    rows = zip(test.read(np.arange(len(test))).tokens, test.lengths, strict=True)
    runs = (_runs(row[:size], length, dataset.vocabulary.size) for row, size in rows)
    return everything(dataset) | {"strangers": np.array([not _among(found, known) for found in runs])}


def _among(found: NDArray[np.int64], known: NDArray[np.int64]) -> bool:
    """Whether any of these numbers is in a sorted array."""
    place = np.searchsorted(known, found).clip(max=len(known) - 1)
    return bool((known[place] == found).any())


def _runs(tokens: NDArray[Any], length: int, size: int) -> NDArray[np.int64]:
    """Each run of `length` tokens as one number."""
    if len(tokens) < length:
        return np.zeros(0, dtype=np.int64)
    windows = np.lib.stride_tricks.sliding_window_view(tokens.astype(np.int64), length)
    found: NDArray[np.int64] = windows @ size ** np.arange(length, dtype=np.int64)
    return found


def figures(scores: Scores, counts: dict[int, Scores], rows: Rows) -> Figures:
    """Bits per token of some rows, under the model and under the n-gram models."""

    def of(all_rows: Scores) -> Figures:
        kept = rows[: len(all_rows.nats)]
        chosen = Scores(all_rows.nats[kept], all_rows.error[kept], all_rows.tokens[kept], 0)
        return asdict(bits(per_unit(chosen, chosen.tokens)))

    kept = rows[: len(scores.nats)]
    return {
        "rows": int(kept.sum()),
        "tokens": int(scores.tokens[kept].sum()),
        "bits_per_token": of(scores),
        "n_grams": [{"order": order, **of(found)} for order, found in counts.items()],
    }


# ------------------------------------------------------------------------------------------------- samples


def molecules(run: Path, dataset: Dataset, seed: int, samples: int) -> Figures:
    """Draw samples and write them; they are checked later."""
    del dataset
    words = f"-n {samples} --seed {seed} --sampler first-hitting --batch-size 1000 --out"
    code = unmask(["sample", str(run), *words.split(), str(run / "samples.json")])
    return {"samples": samples, "written": code == 0}


def proteins(run: Path, dataset: Dataset, seed: int, samples: int) -> Figures:
    """Metrics of samples and of held-out proteins, and the share of each residue."""
    model = load(run)
    train, test = dataset.split("train"), dataset.split("test")
    counted, size = train.stream(0, min(train.tokens, COUNTED)), dataset.vocabulary.size
    metrics = [variety, frequencies_near(counted, size), under_ngram(NGram(counted, 3, size))]
    drawn = model.fill(model.blank(samples, seed), Sampling(steps=128, seed=seed)).tokens.cpu().numpy()
    real = test.read(np.sort(test.spread(samples))).tokens
    found = {name: samples_of(model, list(rows)) for name, rows in (("samples", drawn), ("held out", real))}
    shares = {"train": frequencies([counted], size), "samples": frequencies(found["samples"].tokens, size)}
    return {
        "samples": samples,
        "judged": {name: _values(rows, metrics) for name, rows in found.items()},
        "residues": {
            name: {dataset.vocabulary.decode([i]): round(float(p), 5) for i, p in enumerate(share) if p}
            for name, share in shares.items()
        },
    }


def _values(samples: Samples, metrics: list[Any]) -> Figures:
    return {name: asdict(value) for name, value in judged(samples, metrics).items()}


def chorales(run: Path, dataset: Dataset, seed: int, samples: int) -> Figures:
    """Given the soprano of held-out windows, the share of the other voices' notes that are Bach's own.

    For comparison, the same share for the voices of another window. The filled windows and some new ones are written as
    text for `recipes/chorales.py midi`.
    """
    model, test = load(run), dataset.split("test")
    rows = np.flatnonzero(test.lengths == test.length)[:samples]
    real = test.read(rows).tokens
    hidden = np.arange(test.length) % VOICES != 0
    given = torch.from_numpy(np.where(hidden, model.process.mask_id, real))
    filled = model.fill(given, Sampling("first-hitting", seed=seed)).tokens.cpu().numpy()
    (run / "harmonised.txt").write_text("\n".join(map(dataset.vocabulary.decode, filled)) + "\n")
    new = ["sample", str(run), "-n", "8", "--seed", str(seed), "--sampler", "first-hitting"]
    unmask([*new, "--min-length", str(test.length), "--out", str(run / "new.txt")])
    return {
        "samples": len(rows),
        "as_bach": agreement(filled[:, hidden], real[:, hidden]),
        "as_another": agreement(np.roll(real, 1, axis=0)[:, hidden], real[:, hidden]),
        "by_voice": {v: agreement(filled[:, v::VOICES], real[:, v::VOICES]) for v in range(1, VOICES)},
    }


def agreement(found: NDArray[Any], real: NDArray[Any]) -> Figures:
    """The share of equal tokens, with its error over rows."""
    each = (found == real).mean(axis=1)
    return {"mean": float(each.mean()), "error": float(each.std(ddof=1) / len(each) ** 0.5)}


# ------------------------------------------------------------------------------------------------ settings

_MUON = "--mlp relu2 --optimizer muon --rate 2e-3 --muon-rate 1e-2 --cooldown linear --average 0.998 "
SETTINGS = {
    "molecules": Setting(
        "molecules --layers 8 --heads 5 --width 320 --batch-size 1024 --steps 12000 "
        + f"{_MUON} --save-every 1000 --validate-every 1000",
        "character",
        (1, 4, 6, 8, 10),
        Evaluation(sequences=20_000, draws=2, repeats=2),
        molecules,
        10_000,
        everything,
    ),
    "proteins": Setting(
        f"--size 10m --batch-size 64 --steps 4000 {_MUON} --save-every 1000 --validate-every 1000",
        "residue",
        (1, 2, 3, 6, 9, 12),
        Evaluation(),
        proteins,
        256,
        by_relation,
    ),
    "chorales": Setting(
        f"--size 3m --dropout 0.2 --batch-size 128 --steps 4000 {_MUON} --save-every 500 --validate-every 500 "
        + "--validation-sequences 256",
        "note",
        (1, 2, 3, 4, 5, 6, 7),
        Evaluation(),
        chorales,
        1000,
        everything,
    ),
}


def measure(name: str, data: str, run: Path, seed: int, steps: int | None, samples: int | None) -> None:
    """Train, evaluate, sample and record."""
    record, setting, dataset = Record(f"other_data/{name}", seed), SETTINGS[name], Dataset(data)
    given = [] if steps is None else ["--steps", str(steps)]
    words = ["train", *shlex.split(setting.flags), *given, "--seed", str(seed), "--preview", "0"]
    if unmask([*words, "--data", data, "--out", str(run)]) != 0:
        raise SystemExit("training did not end")
    trained = Run.open(run)
    history, config = trained.metrics(), trained.config
    found = evaluate(trained, setting.evaluation)
    counts = {order: under_counts(dataset, order, setting.evaluation.sequences) for order in setting.orders}
    record.write(
        data=name,
        unit=setting.unit,
        flags=shlex.join(words[1:]),
        parameters=cost(config.network.build, trained.facts.shape).parameters,
        steps=config.training.steps,
        batch_size=config.training.batch_size,
        training_s=round(sum(step["seconds"] for step in history), 1),
        held_out=[[step["step"], step["validation"]["mean"]] for step in history if step.get("validation")],
        result=found.document(),
        groups={group: figures(found.scores, counts, rows) for group, rows in setting.groups(dataset).items()},
        sampled=setting.look(run, dataset, seed, samples or setting.samples),
    )


def check(data: str, run: Path, seed: int) -> None:
    """Check the validity, uniqueness and novelty of the molecules sampled from a run."""
    record, dataset, checker = Record("other_data/validity", seed), Dataset(data), find_checker("smiles")
    known = set(forms(texts_of(dataset.split("train"), dataset.vocabulary), checker))
    found = validity(read_samples(run / "samples.json"), checker, known)
    shares = {"valid": found.valid, "unique": found.unique, "novel": found.novel}
    record.write(**{name: asdict(share) | {"error": share.error} for name, share in shares.items()})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=[*SETTINGS, "validity"])
    parser.add_argument("data")
    parser.add_argument("run", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, help="instead of the recipe's")
    parser.add_argument("--samples", type=int, help="instead of the recipe's")
    options = parser.parse_args()
    if options.what == "validity":
        check(options.data, options.run, options.seed)
    else:
        measure(options.what, options.data, options.run, options.seed, options.steps, options.samples)


if __name__ == "__main__":
    main()
