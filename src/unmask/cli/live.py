"""The unmasking, live in the terminal: colour says when a position was revealed, early ones cool, late ones warm."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text
from torch import Tensor

from unmask.data.vocabulary import Vocabulary
from unmask.run.story import Story
from unmask.sampling import Frame

_COOL, _WARM = (86, 156, 214), (232, 113, 74)
_MASK, _MASKED_PIXEL = "·", (72, 60, 96)
_FRAMES_PER_SECOND = 12


@dataclass
class Watch:
    """Follows the first samples of a batch: what they are, and since when."""

    vocabulary: Vocabulary
    mask_id: int
    picture: bool
    shown: int
    """How many samples."""

    def __post_init__(self) -> None:
        self.frames: list[Tensor] = []
        self.times: list[float] = []
        self._since = torch.empty(0)

    def take(self, frame: Frame) -> None:
        """The next frame."""
        tokens = frame.tokens[: self.shown].cpu()
        if not self.frames:
            self._since = torch.where(tokens == self.mask_id, 1.0, 2.0)  # 2: given
        changed = frame.changed[: self.shown].cpu()
        t = frame.t[: self.shown].cpu().float().view(-1, *[1] * (tokens.ndim - 1))
        self._since = torch.where(changed, t.expand(tokens.shape), self._since)
        self.frames.append(tokens)
        self.times.append(float(frame.t.max()))

    def stories(self) -> list[Story]:
        """What was seen, one for each sample."""
        tokens = torch.stack(self.frames).numpy().astype(np.int64)
        given = tokens[0] != self.mask_id
        times = np.array(self.times)
        return [Story(tokens[:, i], times, given[i], self.mask_id, self.vocabulary) for i in range(tokens.shape[1])]

    def renderable(self) -> RenderableType:
        """The present state."""
        draw = self._pixels if self.picture else self.text
        samples = [draw(i) for i in range(len(self.frames[-1]))]
        return Group(*(line for sample in samples for line in (sample, Text(""))))

    def text(self, sample: int) -> Text:
        """A sample of text, coloured by when its tokens came."""
        text = Text()
        values = zip(self.frames[-1][sample].flatten().tolist(), self._since[sample].flatten().tolist(), strict=True)
        for token, since in values:
            if token == self.mask_id:
                text.append(_MASK, style="dim")
            else:
                text.append(self.vocabulary.decode([token]), style=_style(since))
        return text

    def _pixels(self, sample: int) -> Text:
        """Two rows of pixels in one line of half blocks."""
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


def watched(frames: Iterator[Frame], watch: Watch, console: Console, live: bool) -> Iterator[Frame]:
    """The frames, shown as they come where there is a terminal to show them."""
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
    """Of a token revealed at this time; given ones are bold."""
    if since > 1:
        return "bold"
    mixed = tuple(round(since * cool + (1 - since) * warm) for cool, warm in zip(_COOL, _WARM, strict=True))
    return _rgb(mixed)


def _rgb(colour: tuple[int, ...]) -> str:
    return f"rgb({','.join(map(str, colour))})"
