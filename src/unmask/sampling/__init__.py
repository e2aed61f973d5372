"""Sampling: a trajectory is a generator of frames, from all masked to data."""

from .ancestral import Frame, ancestral, blank, sample

__all__ = ["Frame", "ancestral", "blank", "sample"]
