"""Write the tables of the documents from the JSON under `results/`.

A table is the text between `<!-- table NAME -->` and `<!-- end -->` in a Markdown file; `make results` rewrites it.

    python -m benchmarks.tables
"""

import re
from collections.abc import Callable
from pathlib import Path

from ..record import load_results
from . import likelihoods, models, overview, samples, speed, theory

ROOT = Path(__file__).parent.parent.parent
PLACE = re.compile(r"(<!-- table (?P<name>\w+) -->\n).*?(<!-- end -->)", re.DOTALL)

RECORDS = tuple(
    f"speedrun/{name}-0"
    for name in ("chars-10min", "subwords-before", "subwords-late", "subwords-values", "subwords-25min")
)
"""Runs on text8 of ten minutes and more, with the current recipes and the previous ones."""

TABLES: dict[str, tuple[Callable[..., str], tuple[str, ...]]] = {
    "estimator_variance": (theory.estimator_variance, ("estimator_variance",)),
    "preparation_memory": (speed.preparation_memory, ("preparation_memory",)),
    "training_speed": (speed.training_speed, ("training_speed",)),
    "training_breakdown": (speed.training_breakdown, ("training_speed",)),
    "training_ablation": (speed.training_ablation, ("training_ablation",)),
    "sampling_speed": (speed.sampling_speed, ("sampling_speed", "sampling_latency")),
    "training_scale": (speed.training_scale, ("training_scale",)),
    "cpu_speed": (speed.cpu_speed, ("cpu_characters", "cpu_mnist", "cpu_molecules")),
    "interval_coverage": (theory.interval_coverage, ("interval_coverage",)),
    "window_dependence": (theory.window_dependence, ("window_dependence",)),
    "estimator_efficiency": (theory.estimator_efficiency, ("estimator_efficiency",)),
    "campbell_variance": (theory.campbell_variance, ("campbell_variance",)),
    "evaluations": (likelihoods.evaluations, ("evaluation_text8", "evaluation_mnist")),
    "compression": (likelihoods.compression, ("compression",)),
    "kept_memory": (speed.kept_memory, ("kept_memory",)),
    "questions": (likelihoods.questions, ("evaluation_hellaswag",)),
    "methods": (likelihoods.methods, ("methods/*",)),
    "race_variance": (theory.estimator_variance, ("race_variance",)),
    "learned_schedules": (likelihoods.learned_schedules, ("genmd4/*",)),
    "experiments": (likelihoods.experiments, ("speedrun/*",)),
    "explorations": (likelihoods.explorations, ("explorations/subwords/*",)),
    "text8_record": (likelihoods.text8_record, RECORDS),
    "cifar10": (likelihoods.cifar10, ("cifar10/*min-*",)),
    "pixel_experiments": (likelihoods.pixel_experiments, ("cifar10/try-*",)),
    "text_steps": (likelihoods.text_steps, ("text/books",)),
    "text_sets": (likelihoods.text_sets, ("text/books", "text/books-counts")),
    "text_record": (likelihoods.text_record, ("text/*min-*",)),
    "text_experiments": (likelihoods.text_experiments, ("text/try-*",)),
    "highlights": (overview.highlights, overview.NEEDED),
    "contents": (overview.contents, overview.NEEDED),
    "shipped_demo": (models.shipped_bound, ("shipped_demo",)),
    "shipped_digits": (models.shipped_bound, ("shipped_digits",)),
    "shipped_writing": (models.shipped_writing, ("shipped_demo",)),
    "vocabulary_choice": (models.vocabulary_choice, ("vocabulary_choice",)),
    "serving_load": (speed.serving_load, ("serving_load",)),
    "other_data": (likelihoods.other_data, ("other_data/molecules", "other_data/proteins", "other_data/chorales")),
    "other_samples": (samples.other_samples, ("other_data/validity", "other_data/proteins", "other_data/chorales")),
    "protocol_tokens": (likelihoods.protocol_tokens, ("protocol_tokens",)),
    "grids": (samples.grids, ("grids_digits",)),
    "infilling": (samples.infilling, ("grids_infill",)),
    "sampler_frontier": (samples.sampler_frontier, ("sampler_frontier",)),
    "network_runs": (speed.network_runs, ("network_run_transformer", "network_run_unet", "network_run_uvit")),
}
"""The function that makes each table, and the results that it needs."""


def filled(text: str) -> str:
    """The text with each table regenerated."""

    def fill(place: re.Match[str]) -> str:
        make, names = TABLES[place["name"]]
        return f"{place[1]}{make(*load_results(*names))}\n{place[3]}"

    return PLACE.sub(fill, text)


def documents() -> list[Path]:
    """The Markdown files that may hold tables."""
    cards = sorted((ROOT / "src/unmask/models").glob("*/README.md"))
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *cards]
