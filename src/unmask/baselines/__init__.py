"""The other methods in the paper's tables, which it compares with or unifies, in the same harness.

Data, network, process, trainer, evaluation and samplers are those of MD4, so that differences are due to the method.
Each method takes a few lines: how masks are drawn, and what a masked token costs.
"""

from .ardm import AOARMConfig
from .autoregressive import ARConfig, ChainRule
from .blocks import BlockConfig, InBlocks
from .campbell import CampbellConfig, Jump
from .catalogue import BASELINES, Baseline
from .d3pm import D3PMConfig
from .maskgit import MaskGITConfig, Unweighted
from .score import ScoreEntropy, SEDDConfig
from .sundae import SUNDAEConfig
from .uniform import MultinomialConfig, UniformSteps

__all__ = [
    "BASELINES",
    "AOARMConfig",
    "ARConfig",
    "Baseline",
    "BlockConfig",
    "CampbellConfig",
    "ChainRule",
    "D3PMConfig",
    "InBlocks",
    "Jump",
    "MaskGITConfig",
    "MultinomialConfig",
    "SEDDConfig",
    "SUNDAEConfig",
    "ScoreEntropy",
    "UniformSteps",
    "Unweighted",
]
