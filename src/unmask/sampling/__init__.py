"""Sampling: a trajectory is a generator of frames from masks to data, with one function per published sampler."""

from .family import BLOCKS, CAUSAL, MASKED, SCORES, UNIFORM, Family
from .frame import Frame
from .predict import Guidance, Predictor, Without
from .samplers import LAWS, SAMPLERS, Sampler, find_sampler, fitting, options_of
from .trajectory import Sampled, blank, ended, sample, trajectory

__all__ = [
    "BLOCKS",
    "CAUSAL",
    "LAWS",
    "MASKED",
    "SAMPLERS",
    "SCORES",
    "UNIFORM",
    "Family",
    "Frame",
    "Guidance",
    "Predictor",
    "Sampled",
    "Sampler",
    "Without",
    "blank",
    "ended",
    "find_sampler",
    "fitting",
    "options_of",
    "sample",
    "trajectory",
]
