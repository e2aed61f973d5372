"""A trained model, ready to use: network, process and vocabulary, from a run's folder."""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from ..core import Process, Streams, cosine_grid, uniform_grid
from ..data.vocabulary import Vocabulary
from ..mistakes import fail, require
from ..networks import Network
from ..sampling import blank, sample
from ..training import Method, checkpoint
from .folder import Facts, Run
from .previews import texts

GRIDS = {"uniform": uniform_grid, "cosine": cosine_grid}


@dataclass(frozen=True)
class Model:
    """A network that predicts x_0, the process it was trained for, and what its tokens mean."""

    method: Method
    vocabulary: Vocabulary
    facts: Facts

    @property
    def network(self) -> Network:
        return self.method.network

    @property
    def process(self) -> Process:
        return self.method.estimator().process

    @property
    def device(self) -> torch.device:
        return next(self.method.parameters()).device

    @torch.no_grad()
    def sample_tokens(
        self, count: int, *, steps: int = 256, seed: int = 0, grid: str = "cosine", label: int | None = None
    ) -> Tensor:
        """Samples [count, *shape]; sample i depends on the seed and i only."""
        require(count >= 1, "the number of samples is not positive", got=count, allowed=">= 1", do="ask for one")
        streams = Streams(seed, count, device=self.device)
        counts = torch.tensor(self.facts.length_counts)
        lengths = torch.arange(len(counts)).repeat_interleave(counts) if len(counts) else None
        x = blank(self.facts.shape, self.process.mask_id, streams, lengths, self.vocabulary.eos_id or 0)
        times = GRIDS[grid](steps)
        return sample(self.network, self.process, x, times, streams.fork("sample"), self._labels(label, count))

    def sample(self, count: int, *, steps: int = 256, seed: int = 0, grid: str = "cosine") -> list[str]:
        """Samples as text."""
        return texts(self.sample_tokens(count, steps=steps, seed=seed, grid=grid).cpu(), self.vocabulary)

    def _labels(self, label: int | None, count: int) -> Tensor | None:
        classes = self.network.classes
        if label is None:
            return None
        require(
            0 <= label < classes,
            "no such class",
            got=label,
            allowed=f"0..{classes - 1}" if classes else "none: the model has no classes",
            do="leave the label out, or name one of them",
        )
        return torch.full((count,), label, device=self.device)


def load(
    folder: Path | str, *, average: bool = True, best: bool = False, device: torch.device | str | None = None
) -> Model:
    """The model of a run: its newest checkpoint or its best, its averaged weights or the plain ones."""
    run = Run.open(folder)
    path = checkpoint.best(run.checkpoints) if best else checkpoint.newest(run.checkpoints)
    if path is None:
        fail(f"{folder} has no checkpoint yet", got="none", allowed="at least one", do="train first")
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    config = run.config
    method = config.method.build(config.network.build())
    method.load_state_dict(checkpoint.load_weights(path, average))
    method.requires_grad_(False).to(device).eval()
    return Model(method, run.vocabulary, run.facts)
