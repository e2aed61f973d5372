"""A trained model, ready to use: network, process and vocabulary, from a run's folder."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ..core import Estimator, Process, Streams, fitting_grid
from ..core.device import best_device, mixed, usable
from ..data.manifest import MOST_TOKENS
from ..data.vocabulary import Vocabulary
from ..evaluation import Sequences, score
from ..evaluation.likelihood import DEFAULT, Fit, Taken
from ..mistakes import require
from ..networks import Halves, Network, Replayed
from ..sampling import MASKED, SCORES, Frame, Guidance, Predictor, Sampled, blank, ended, trajectory
from ..sampling.frame import together
from ..training import Method
from .folder import Facts, ModelFolder
from .places import find_model
from .previews import texts
from .prompt import Prompt, parse
from .sampling import GRIDS, Sampling
from .weights import built


@dataclass(frozen=True)
class Model:
    """A network that predicts x_0, the process it was trained for, and what its tokens mean."""

    method: Method
    vocabulary: Vocabulary
    facts: Facts

    @property
    def network(self) -> Network:
        return self.method.network

    @cached_property
    def _halves(self) -> Replayed:
        return Replayed(self.network)

    @property
    def process(self) -> Process:
        return self.method.estimator().process

    def sampler(self, sampling: Sampling) -> str:
        """The name of the sampler to use."""
        return sampling.sampler or self.method.family.sampler

    def estimator(self, name: str = DEFAULT, steps: Taken | None = None, fit: Fit | None = None) -> Estimator:
        """The estimator that bounds the likelihood of this model (`evaluation.estimator_for`)."""
        return self.method.bound(name, steps, fit)

    @property
    def device(self) -> torch.device:
        return next(self.method.parameters()).device

    # ------------------------------------------------------------------------------------------- samples

    def sample(self, count: int, *, length: int | None = None, **how: Any) -> list[str]:
        """Draw samples as text; `how` takes the fields of `Sampling`."""
        found = self.sample_tokens(count, length=length, **how)
        return texts(found.tokens.cpu(), self.vocabulary)

    def sample_tokens(self, count: int, *, length: int | None = None, **how: Any) -> Sampled:
        """Draw samples [count, *shape], with the number of network calls that each took."""
        sampling = Sampling(**how)
        x = self.blank(count, sampling.seed, length=length)
        return self.fill(x, sampling)

    def infill(self, prompts: str | Sequence[str], **how: Any) -> list[str]:
        """Fill in the gaps (`____`, `[MASK:5]`) of prompts."""
        many = [prompts] if isinstance(prompts, str) else list(prompts)
        rows = [self.prompt(text) for text in many]
        filled = self.fill_prompts(rows, Sampling(**how))
        return [self.vocabulary.decode(row) for row in filled]

    def log_likelihood(
        self, given: str | Sequence[str], *, draws: int = 16, repeats: int = 4, seed: int = 0
    ) -> list[tuple[float, float]]:
        """A lower bound on log p of each text in nats, and its standard error; each text at its own length."""
        many = [given] if isinstance(given, str) else given
        rows = [torch.from_numpy(self.vocabulary.encode(text).astype(np.int64)) for text in many]
        estimator = self.estimator()
        found: dict[int, tuple[float, float]] = {}
        for index in together(rows, max(1, 64 // draws)):
            numbers, x_0 = torch.tensor(index, device=self.device), torch.stack([rows[i] for i in index])
            tokens, valid = self.whole_rows(x_0)
            (part,) = score(
                self.network,
                [Sequences(tokens, numbers, valid)],
                estimator,
                draws=draws,
                repeats=repeats,
                seed=seed,
            )
            found |= dict(zip(index, zip((-part.nats).tolist(), part.error.tolist(), strict=True), strict=True))
        return [found[i] for i in range(len(rows))]

    def fill_prompts(self, rows: Sequence[Tensor], sampling: Sampling) -> list[np.ndarray[Any, Any]]:
        """Fill rows of any lengths, batching those of equal length; row i draws from stream i."""
        result: dict[int, np.ndarray[Any, Any]] = {}
        for index in together(rows, sampling.batch_size):
            found = self.fill(torch.stack([rows[i] for i in index]), sampling, torch.tensor(index))
            result |= dict(zip(index, found.tokens.cpu().numpy(), strict=True))
        return [result[i] for i in range(len(rows))]

    def fill(self, x: Tensor, sampling: Sampling, index: Tensor | None = None, labels: Tensor | None = None) -> Sampled:
        """Fill the masked positions of x [B, ...], batch by batch; `labels`: a class for each row."""
        index = torch.arange(len(x)) if index is None else index
        tokens, calls = [], 0.0
        for start in range(0, len(x), sampling.batch_size):
            rows = slice(start, start + sampling.batch_size)
            own = None if labels is None else labels[rows]
            for frame in self.frames(x[rows], sampling, index[rows], labels=own):
                last = frame
            tokens.append(last.tokens)
            calls += last.calls
        return Sampled(torch.cat(tokens), calls / len(x))

    @torch.no_grad()
    def frames(
        self,
        x: Tensor,
        sampling: Sampling,
        index: Tensor | None = None,
        halves: Halves | None = None,
        labels: Tensor | None = None,
    ) -> Iterator[Frame]:
        """The trajectory that fills the masked positions of x [B, ...]; `index`: the numbers of these samples.

        halves: another way to call the network, such as one that several trajectories share.
        labels: a class for each row [B], instead of the class of `sampling` for all rows.
        """
        x = x.to(self.device)
        self._check_given(x)
        labels = self.labels(sampling.label, len(x)) if labels is None else self._checked(labels, len(x))
        index = torch.arange(len(x)) if index is None else index
        process = self.process
        predict = Predictor(
            self.network,
            process.mask_id,
            labels,
            guidance=self._guidance(sampling, x, labels is not None),
            temperature=sampling.temperature,
            top_k=sampling.top_k,
            top_p=sampling.top_p,
            halves=halves or self._halves,
            family=self.method.family,
        )
        times = fitting_grid(process.schedule) if sampling.grid is None else GRIDS[sampling.grid]
        streams = Streams(sampling.seed, index.to(self.device)).fork("sample")
        grid, name, options = times(sampling.steps), self.sampler(sampling), sampling.options
        yield from self._mixed(
            trajectory(predict, process, x, grid, streams, name, window=self.window, fill=self._end, **options)
        )

    def _mixed(self, frames: Iterator[Frame]) -> Iterator[Frame]:
        """The frames, computed in bfloat16 on a GPU; what the caller does in between is unaffected."""
        while True:
            with mixed(self.device):
                frame = next(frames, None)
            if frame is None:
                return
            yield frame

    # -------------------------------------------------------------------------------------- what to fill

    @property
    def fixed_shape(self) -> bool:
        """Whether the model handles rows of a fixed shape (images, molecules) rather than text of any length."""
        return self.network.fixed_shape

    @property
    def window(self) -> int | None:
        """The longest running text that the network has seen at once; None for rows and images."""
        return None if self.fixed_shape or len(self.facts.shape) > 1 else self.facts.shape[0]

    def blank(
        self, count: int, seed: int, *, length: int | None = None, least: int | None = None, most: int | None = None
    ) -> Tensor:
        """Fully masked rows [count, *shape].

        length: the length of running text, which may exceed that of training. Where rows differ in length, lengths are
        drawn from those of the data, between `least` and `most` if given.
        """
        require(count >= 1, "the number of samples is not positive", got=count, allowed=">= 1", do="raise it")
        shape = self.facts.shape
        if length is not None:
            good, allowed = 1 <= length <= MOST_TOKENS, f"1..{MOST_TOKENS:,}"
            require(good, "the length is out of range", got=length, allowed=allowed, do="ask for another")
            require(
                not self.fixed_shape,
                "the length cannot be chosen for this model",
                got=length,
                allowed=f"rows of {'×'.join(map(str, shape))}",
                do="leave it out; the shortest and the longest can be chosen where rows differ in length",
            )
            shape = (length,)
        streams = Streams(seed, count, device=self.device)
        counts = self._length_counts(least, most)
        return blank(shape, self.process.mask_id, streams, counts, self.vocabulary.fill_id)

    def _length_counts(self, least: int | None, most: int | None) -> Tensor | None:
        """How many training rows have 0, 1, 2, … tokens; none outside the range that is asked for."""
        counts = torch.tensor(self.facts.length_counts)
        if not len(counts):
            require(
                least is None and most is None,
                "all rows of this model have the same length",
                got="a shortest or longest length",
                allowed="none",
                do="leave them out",
            )
            return None
        low, high = least or 0, len(counts) - 1 if most is None else most
        lengths = torch.arange(len(counts))
        kept = counts.masked_fill((lengths < low) | (lengths > high), 0)
        known = lengths[counts > 0]
        got = f"at least {low}" if most is None else f"{low}..{high}"
        allowed = f"{int(known[0])}..{int(known[-1])}"
        require(bool(kept.any()), "no row has such a length", got=got, allowed=allowed, do="widen the range")
        return kept

    def prompt(self, text: str) -> Tensor:
        """The tokens of a text with its gaps masked, and what follows them (`whole_row`) in models of rows."""
        flat, do = len(self.facts.shape) == 1, "pass --image and --mask"
        require(flat, "this model generates images", got="a text", allowed="an image with a masked part", do=do)
        found: Prompt = parse(text, self.vocabulary)
        row = torch.from_numpy(found.masked(self.process.mask_id))
        longest = self.facts.shape[0]
        if not self.fixed_shape:
            return row
        require(
            len(row) <= longest,
            "the prompt is longer than the model's rows",
            got=f"{len(row)} tokens",
            allowed=f"at most {longest}",
            do="shorten it",
        )
        return self.whole_row(row)

    def whole_row(self, row: Tensor) -> Tensor:
        """A row with what follows it: its end or, if all rows have the same length, more to be drawn."""
        rest = self.process.mask_id if self._end is None else self._end
        return F.pad(row, (0, self.facts.shape[0] - len(row)), value=rest)

    def whole_rows(self, x_0: Tensor) -> tuple[Tensor, Tensor | None]:
        """Texts [B, n] in the shape the network expects, and which tokens belong to them: short rows are padded."""
        shape, size = self.facts.shape, x_0.shape[1]
        least = shape[0] if self.fixed_shape and self._end is None else 1
        allowed = f"{least}..{shape[0]} tokens" if len(shape) == 1 else "images"
        good = len(shape) == 1 and least <= size <= shape[0]
        require(good, "the text does not fit the model", got=f"{size} tokens", allowed=allowed, do="score a part of it")
        if self._end is None:
            return x_0.to(self.device), None
        tokens = F.pad(x_0, (0, shape[0] - size), value=self._end).to(self.device)
        return tokens, (torch.arange(shape[0], device=self.device) < size).expand(len(x_0), -1)

    def labels(self, label: int | str | None, count: int) -> Tensor | None:
        """The same class for `count` samples, if one is given."""
        return None if label is None else torch.full((count,), self._class_of(label), device=self.device)

    def _checked(self, labels: Tensor, count: int) -> Tensor:
        for label in labels.tolist():
            self._class_of(label)
        fits = labels.shape == (count,)
        require(fits, "there must be a class for each row", got=len(labels), allowed=f"{count}", do="name as many")
        return labels.to(self.device)

    def _class_of(self, label: int | str) -> int:
        """The number of a class, from its name or number."""
        names, classes = self.facts.label_names, self.network.classes
        if isinstance(label, str) and label in names:
            return names.index(label)
        number = int(label) if isinstance(label, int) or label.isdecimal() else -1
        known = f"0..{classes - 1}" if all(map(str.isdecimal, names)) else ", ".join(names[:20])
        require(
            0 <= number < classes,
            "no such class",
            got=label,
            allowed=known if classes else "none: the model has no classes",
            do="leave the label out, or choose one of them",
        )
        return number

    @property
    def _end(self) -> int | None:
        """The token after the end of a row; None if all rows have the same length."""
        return self.vocabulary.fill_id if self.facts.length_counts else None

    def _given(self, x: Tensor) -> Tensor:
        """Which positions are not to be filled: the tokens of a prompt, without the padding after the end of a row."""
        return (x != self.process.mask_id) & ~ended(x, self._end)

    @property
    def takes_prompts(self) -> bool:
        """Whether the network reads given tokens rightly.

        If tokens have exponents, those still hidden have lost a race so far, and a network that does not see the time
        takes every visible token for a winner. Given tokens are not: it would hardly ever predict one with a large w.
        """
        return not self.process.schedule.per_token or self.network.sees_time

    def check_continuations(self) -> None:
        """Fail if the bound of a text after a prompt would be that of a prompt misread."""
        require(
            self.takes_prompts,
            "this model cannot score what follows a prompt",
            got="exponents without the time",
            allowed="whole texts",
            do="train with --time, or without --exponents",
        )

    def _check_given(self, x: Tensor) -> None:
        """Fail if the network would misread a prompt."""
        if self.takes_prompts:
            return
        whole = self.fixed_shape or x.shape[1] <= self.facts.shape[0]
        require(
            whole and not bool(self._given(x).any()),
            "this model cannot continue from given tokens",
            got="a prompt" if whole else f"{x.shape[1]} tokens, more than it was trained on",
            allowed="samples from scratch: its tokens have exponents, and it does not see the time",
            do="train with --time, or without --exponents",
        )

    def _guidance(self, sampling: Sampling, x: Tensor, labelled: bool) -> Guidance | None:
        """Guide away from "no class" if a class is given, else away from an empty prompt."""
        if sampling.guidance is None:
            return None
        mask_id, classes = self.process.mask_id, self.network.classes
        if labelled:
            none = torch.full((len(x),), classes, device=self.device)
            return Guidance(sampling.guidance, lambda x, _, samples: (x, none[samples]), sampling.rising)
        family, allowed = self.method.family, f"{MASKED.name}, whose network knows hidden tokens"
        known = family in (MASKED, SCORES)
        require(known, "guidance by a prompt needs another model", got=family.name, allowed=allowed, do="name a class")
        given = self._given(x)
        require(
            self.fixed_shape or x.shape[1] <= self.facts.shape[0],
            "guidance by a prompt does not extend over several blocks",
            got=f"{x.shape[1]} tokens",
            allowed=f"at most {self.facts.shape[0]}, the training length",
            do="shorten the text, or leave the guidance out",
        )
        require(
            bool(given.any()),
            "there is nothing to guide by",
            got="no class and no prompt",
            allowed=f"a class (0..{classes - 1})" if classes else "a prompt: the model has no classes",
            do="name a class, or give a prompt",
        )
        return Guidance(
            sampling.guidance, lambda x, c, samples: (x.masked_fill(given[samples], mask_id), c), sampling.rising
        )


def load(
    model: Path | str | ModelFolder,
    *,
    average: bool = True,
    best: bool = False,
    device: torch.device | str | None = None,
    compiled: bool = False,
) -> Model:
    """Load a model by name or path (`find_model`): of a run, the newest or the best checkpoint, with averaged or raw
    weights.

    compiled: compile parts of the network with `torch.compile`, which takes a while and pays off in long jobs on a GPU.
    """
    folder = find_model(model)
    config, vocabulary, facts = folder.config, folder.vocabulary, folder.facts
    require(
        vocabulary.size == config.network.vocab_size,
        f"the vocabulary of {folder.folder} does not fit its network",
        got=f"{vocabulary.size} tokens",
        allowed=f"{config.network.vocab_size}",
        do="get the model again",
    )
    method = built(config, folder.weights(average, best), folder.folder)
    device = usable(device or best_device())
    method.requires_grad_(False).to(device).eval()
    if compiled:
        method.network.compile_parts(dynamic=None)
    return Model(method, vocabulary, facts)
