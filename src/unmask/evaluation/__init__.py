"""Evaluation: what a figure is compared with."""

from .ngram import NGram

__all__ = ["NGram"]
