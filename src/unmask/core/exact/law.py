"""The interface of a distribution with known probabilities, and its denoiser by Bayes' rule."""

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor

from ..process import Denoiser, Process
from ..streams import Streams


class Law(ABC):
    """A distribution over sequences x_0 of tokens 0..V−1."""

    vocab_size: int

    @abstractmethod
    def log_prob(self, x: Tensor) -> Tensor:
        """Exact log p(x) [B] of sequences [B, N]."""

    @abstractmethod
    def draw(self, length: int, streams: Streams) -> Tensor:
        """Exact samples [B, length], one per stream."""

    @abstractmethod
    def log_marginals(self, log_evidence: Tensor) -> Tensor:
        """log p(x^(n) = v | evidence) [B, N, V], where evidence multiplies p(x) by Π_n exp(log_evidence[n, x_n])."""

    def denoiser(self, process: Process) -> Denoiser:
        """E[x_0 | x_t] as logits: the μ for which the bound is tight.

        A visible position is certain. A masked one has likelihood 1−α_{t,v} for each possible value v: the same
        for all v under a scalar schedule, so that time drops out, and t^(w_v) under GenMD4.
        """

        def denoise(x_t: Tensor, t: Tensor, condition: Any = None) -> Tensor:
            del condition
            vocabulary = torch.arange(process.vocab_size, device=x_t.device)
            mask_evidence = process.schedule.at(vocabulary).log_mask_prob(t.double()[:, None])  # [B, V] or [B, 1]
            # a common factor cancels, even if it underflows to 0
            mask_evidence = (mask_evidence - mask_evidence.amax(1, keepdim=True)).nan_to_num(nan=0.0)
            log_evidence = torch.where(
                x_t[..., None] == process.mask_id,
                mask_evidence[:, None, :],
                torch.where(x_t[..., None] == vocabulary, 0.0, -torch.inf).double(),
            )
            return self.log_marginals(log_evidence)

        return denoise
