"""The settings of the training loop."""

from dataclasses import dataclass, field
from typing import Literal

import torch

from ..core.device import on_gpu
from ..mistakes import require
from .optimizer import OptimizerConfig
from .rate import RateConfig


@dataclass(frozen=True)
class TrainingConfig:
    """Settings of the training loop."""

    steps: int = 2000
    """Number of training steps (updates of the weights)."""
    batch_size: int = 32
    """Sequences per step, in total over all micro-batches and processes."""
    micro_batch: int | None = None
    """Sequences per forward and backward pass; a smaller value saves memory and changes nothing else. None: all."""
    seed: int = 0
    """Seed for the initial weights, the order of the data, and all noise."""
    precision: Literal["auto", "bf16", "fp32"] = "auto"
    """Precision of the computation; weights and losses are always fp32. auto: bf16 on a GPU, fp32 elsewhere."""
    compile: Literal["auto", "blocks", "whole", "off"] = "auto"
    """Compile the network (block by block or as a whole) and the loss with torch.compile. auto: blocks on a GPU."""
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    rate: RateConfig = field(default_factory=RateConfig)
    clip: float = 1.0
    """Maximum norm to which the gradient is clipped."""
    average: float = 0.9999
    """Decay of the exponential moving average of the weights."""
    label_dropout: float = 0.1
    """Fraction of samples whose class is hidden from the network, for classifier-free guidance."""
    save_every: int = 200
    """Steps between checkpoints."""
    keep: int = 2
    """Number of recent checkpoints to keep, besides the best."""
    validate_every: int = 200
    """Steps between validations, each with the held-out bound and a preview."""
    validation_sequences: int = 64
    """Number of held-out sequences on which the bound is computed."""
    preview: int = 2
    """Number of samples shown at each validation; 0 for none."""
    preview_steps: int = 64
    """Number of sampling steps for a preview."""

    def __post_init__(self) -> None:
        for name in (
            *("steps", "batch_size", "save_every", "keep"),
            *("validate_every", "validation_sequences", "preview_steps"),
        ):
            value = getattr(self, name)
            require(value >= 1, f"{name} is not positive", got=value, allowed="an integer >= 1", do="raise it")
        seed, good = self.seed, 0 <= self.seed < 2**64
        require(good, "seed is out of range", got=seed, allowed="0 <= seed < 2**64", do="pass a non-negative integer")
        require(self.clip > 0, "clip is not positive", got=self.clip, allowed="> 0", do="use inf for none")
        share, decay = self.label_dropout, self.average
        require(0 <= share <= 1, "label_dropout is out of range", got=share, allowed="0 to 1", do="pass a fraction")
        require(0 <= decay < 1, "average is out of range", got=decay, allowed="0 <= decay < 1", do="use 0 for none")
        require(self.preview >= 0, "preview is negative", got=self.preview, allowed=">= 0", do="use 0 for none")
        for name, choices in (("precision", ("auto", "bf16", "fp32")), ("compile", ("auto", "blocks", "whole", "off"))):
            value = getattr(self, name)
            require(value in choices, f"unknown {name}", got=value, allowed=", ".join(choices), do="choose one of them")
        micro = self.micro_batch
        require(
            micro is None or (micro >= 1 and self.batch_size % micro == 0),
            "the micro-batch does not divide the batch",
            got=f"{micro} of {self.batch_size}",
            allowed="a divisor of the batch size",
            do="change one of them",
        )

    def at_once(self, ranks: int = 1) -> int:
        """Sequences per forward and backward pass of each rank."""
        return self.micro_batch or self.batch_size // ranks

    def mixed(self, device: torch.device) -> bool:
        """Whether the network computes in bf16; weights, losses and averages stay float32."""
        return on_gpu(device) if self.precision == "auto" else self.precision == "bf16"

    def compiled(self, device: torch.device) -> bool:
        """Whether the network and the loss are compiled."""
        return on_gpu(device) if self.compile == "auto" else self.compile != "off"
