"""Live unmasking in the terminal: colour shows when a position was revealed, early cool, late warm."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text
from torch import Tensor

from unmask.data.vocabulary import BROKEN, Vocabulary
from unmask.run.story import Story
from unmask.sampling import Frame

_COOL, _WARM = (86, 156, 214), (232, 113, 74)
_MASK, _MASKED_PIXEL = "·", (72, 60, 96)
_FRAMES_PER_SECOND = 12


@dataclass
class Watch:
    """Follows the first samples of a batch: their tokens, and when each was revealed."""

    vocabulary: Vocabulary
    mask_id: int
    picture: bool
    shown: int
    """How many samples to show."""
    trim: bool = False
    """Whether to cut texts at their first end-of-text token."""
    keep: bool = False
    """Whether to keep all frames, for `stories`, and not only the last."""

    def __post_init__(self) -> None:
        self.rows: list[int] = []
        """Indices of the samples, where the batch is one of several."""
        self.frames: list[Tensor] = []
        self.times: list[float] = []
        self._since = torch.empty(0)

    def take(self, frame: Frame) -> None:
        """Take the next frame."""
        tokens = frame.tokens[: self.shown].cpu()
        if not self.frames:
            self._since = torch.where(tokens == self.mask_id, 1.0, 2.0)  # 2: given
        changed = frame.changed[: self.shown].cpu()
        t = frame.t[: self.shown].cpu().float().view(-1, *[1] * (tokens.ndim - 1))
        self._since = torch.where(changed, t.expand(tokens.shape), self._since)
        if not self.keep:
            self.frames.clear()
            self.times.clear()
        self.frames.append(tokens.clone())  # on a CPU these are a view, which would hold the whole batch
        self.times.append(float(frame.t.max()))

    def stories(self) -> list[Story]:
        """What was seen, one story for each sample."""
        tokens = torch.stack(self.frames).numpy().astype(np.int64)
        given = tokens[0] != self.mask_id
        times = np.array(self.times)
        return [Story(tokens[:, i], times, given[i], self.mask_id, self.vocabulary) for i in range(tokens.shape[1])]

    def renderable(self) -> RenderableType:
        """The current state."""
        draw = self._pixels if self.picture else self.text
        samples = [draw(i) for i in range(len(self.frames[-1]))]
        return Group(*(line for sample in samples for line in (sample, Text(""))))

    def text(self, sample: int) -> Text:
        """A sample, coloured by when its tokens appeared; with nothing masked, it is what the vocabulary decodes."""
        tokens = self.frames[-1][sample].flatten().numpy()
        tokens = until_end(tokens, self.vocabulary) if self.trim else tokens
        text = Text()
        for piece, since in zip(self._pieces(tokens), self._since[sample].flatten().tolist(), strict=False):
            text.append(*(_MASK, "dim") if piece is None else (piece, _style(since)))
        return text

    def _pieces(self, tokens: NDArray[Any]) -> Iterator[str | None]:
        """The text of each position: None if it is masked, or part of a character whose other parts are masked."""
        masked = tokens == self.mask_id
        borders = [0, *(np.flatnonzero(np.diff(masked)) + 1).tolist(), len(tokens)]
        for start, stop in pairwise(borders):
            if start < stop and masked[start]:
                yield from [None] * (stop - start)
            else:
                yield from _between(self.vocabulary.pieces(tokens[start:stop]), start > 0, stop < len(tokens))

    def _pixels(self, sample: int) -> Text:
        """The image, with two rows of pixels in each line of half blocks."""
        image = self.frames[-1][sample]
        colours = image[..., None].expand(*image.shape, 3) if image.ndim == 2 else image
        masked = (colours == self.mask_id).any(-1)
        text = Text()
        for top in range(0, len(image) - 1, 2):
            for column in range(image.shape[1]):
                pair = [
                    _MASKED_PIXEL if masked[row, column] else tuple(colours[row, column].tolist())
                    for row in (top, top + 1)
                ]
                text.append("▀", style=f"{_rgb(pair[0])} on {_rgb(pair[1])}")
            text.append("\n")
        return text


def revealed(given: Tensor, frame: Frame, mask_id: int) -> float:
    """The revealed share of what was masked; computed from the time where nothing is masked before the end."""
    before, now = ((tokens == mask_id).sum().item() for tokens in (given, frame.tokens))
    return 1 - (now / before if now else float(frame.t.mean()))


def until_end(tokens: NDArray[Any], vocabulary: Vocabulary) -> NDArray[Any]:
    """The tokens before the first end of text."""
    ends = np.flatnonzero(tokens == vocabulary.eos_id)
    return tokens[: ends[0]] if len(ends) else tokens


def _between(pieces: Sequence[str], after_mask: bool, before_mask: bool) -> Iterator[str | None]:
    """The pieces of tokens between masks; incomplete bytes at their borders may still become a character."""
    for number, piece in enumerate(pieces):
        known = piece.lstrip(BROKEN) if after_mask else piece
        after_mask = after_mask and not known
        known = known.rstrip(BROKEN) if before_mask and number == len(pieces) - 1 else known
        yield None if piece and not known else known


def watched(frames: Iterator[Frame], watch: Watch, console: Console, live: bool) -> Iterator[Frame]:
    """The frames, shown as they arrive if there is a terminal."""
    if not live:
        for frame in frames:
            watch.take(frame)
            yield frame
        return
    with Live(console=console, refresh_per_second=_FRAMES_PER_SECOND, transient=True) as view:
        for frame in frames:
            watch.take(frame)
            view.update(watch.renderable())
            yield frame


def _style(since: float) -> str:
    """The style of a token revealed at this time; given tokens are bold."""
    if since > 1:
        return "bold"
    mixed = tuple(round(since * cool + (1 - since) * warm) for cool, warm in zip(_COOL, _WARM, strict=True))
    return _rgb(mixed)


def _rgb(colour: tuple[int, ...]) -> str:
    return f"rgb({','.join(map(str, colour))})"
