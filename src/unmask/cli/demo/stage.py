"""What the parts of the demo share."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from unmask.run import Model
from unmask.sampling import Frame

from ..live import Watch, revealed, watched

_SHOWN = (0.25, 0.5, 0.75)
"""Without a terminal, the state is printed when these shares are revealed."""


class DemoStoppedError(Exception):
    """The user has stopped the demo."""


@dataclass(frozen=True)
class Stage:
    """The settings and the console of a demo."""

    out: Path
    seed: int
    steps: int
    """Training steps."""
    text: Path | None
    """The user's own text to train on."""
    console: Console

    @property
    def live(self) -> bool:
        """Whether the output is shown live in a terminal."""
        return self.console.is_terminal and not self.console.quiet

    def watch(self, model: Model, frames: Iterator[Frame], shown: int = 1) -> list[list[int]]:
        """Show samples being unmasked; returns their tokens."""
        seen = Watch(model.vocabulary, model.process.mask_id, picture=False, shown=shown)
        left = list(_SHOWN)
        for frame in watched(frames, seen, self.console, self.live):
            if frame.step == 0:
                given = frame.tokens
            share = revealed(given, frame, model.process.mask_id)
            if not self.live and left and share >= left[0]:
                self.console.print(f"{share:4.0%} {_one_line(seen, 0)}", markup=False, soft_wrap=True)
                left = [later for later in left if later > share]
        self.console.print(seen.renderable())
        return [row.tolist() for row in frame.tokens]


def _one_line(watch: Watch, sample: int) -> str:
    return " ".join(watch.text(sample).plain.split())
