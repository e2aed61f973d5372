"""Discrete data: vocabularies, sources, preparation, and batches that are a function of (seed, step).

Needs numpy and tokenizers only; readers of special formats import what they need when they are used. Suggested reading
order: `vocabulary` (symbols ↔ ids), `sources` (where documents come from), `prepare` (documents → token shards with a
manifest), `dataset` (shards → rows), `order` (which rows make up step s).
"""

from .dataset import Batch, Dataset, Split
from .manifest import Manifest
from .order import rows_of_step
from .prepare import Plan, prepare
from .sources import Reading, find_source
from .vocabulary import Bytes, Characters, Integers, Subwords, Vocabulary

__all__ = [
    "Batch",
    "Bytes",
    "Characters",
    "Dataset",
    "Integers",
    "Manifest",
    "Plan",
    "Reading",
    "Split",
    "Subwords",
    "Vocabulary",
    "find_source",
    "prepare",
    "rows_of_step",
]
