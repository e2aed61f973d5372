"""The commands that draw from a model: sample, infill, samplers, bench sample."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from .flags import MODEL, optional

if TYPE_CHECKING:
    from unmask.run import Model, Sampling

    from .sample import Wanted


@dataclass(frozen=True, kw_only=True)
class SamplingFlags:
    """What sample and infill have in common."""

    sampler: Annotated[str | None, optional("NAME")] = None
    """See unmask samplers. Default: the one that fits the model, mostly ancestral."""
    steps: int = 256
    """Steps of the grid; samplers without one make as many calls as they need."""
    grid: Annotated[Literal["uniform", "cosine"] | None, optional("NAME")] = None
    """uniform or cosine. Default: cosine for the linear schedule, uniform for others."""
    option: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME=VALUE", help_behavior_hint="")] = ()
    """Options of the sampler, such as eta=0.1."""
    seed: int = 0
    """Sample i depends on the seed and i only."""
    temperature: float = 1.0
    """Below 1: more likely tokens; 0: only the most likely. Changes the law."""
    top_k: Annotated[int | None, optional("K")] = None
    """Only the K most likely tokens."""
    top_p: Annotated[float | None, optional("P")] = None
    """Only the most likely tokens that make up P."""
    label: Annotated[str | None, optional("CLASS")] = None
    """The class, by name or number."""
    guidance: Annotated[float | None, optional("G")] = None
    """More than 1: more of the class, or of what a prompt gives."""
    rising: bool = False
    """Guidance that is weak while most is masked."""
    batch_size: int = 64
    """Samples at once."""
    compile: bool = False
    """Compile the network first: pays in long jobs on a GPU."""
    trim: bool = False
    """Stop at the first end of text."""
    out: Annotated[Path | None, optional("FILE")] = None
    """Write the samples: .txt, .json, .npz, or .png for pictures."""
    gif: Annotated[Path | None, optional("FILE")] = None
    """Write an animation of the first samples."""
    html: Annotated[Path | None, optional("FILE")] = None
    """Write a page that plays the first samples."""
    json: bool = False
    """Print the samples as JSON and nothing else."""

    def sampling(self, model: "Model") -> "Sampling":
        """The settings for a model, whose own sampler is used unless another is named."""
        from unmask.run import Sampling
        from unmask.sampling import options_of

        from . import sample

        sampler = self.sampler or model.method.family.sampler
        return Sampling(
            sampler=sampler,
            steps=self.steps,
            grid=self.grid,
            seed=self.seed,
            temperature=self.temperature,
            top_k=self.top_k,
            top_p=self.top_p,
            label=sample.label_of(model, self.label),
            guidance=self.guidance,
            rising=self.rising,
            batch_size=self.batch_size,
            options=options_of(sampler, self.option),
        )

    def wanted(self) -> "Wanted":
        """What to do with the samples."""
        from .sample import Wanted

        return Wanted(self.out, self.gif, self.html, self.json, self.trim)


@dataclass(frozen=True, kw_only=True)
class Sample(SamplingFlags):
    """Draw samples from a model; in a terminal, watch it unmask.

    They have the model's own law, unless a sampler or a flag says otherwise. Examples:
      unmask sample demo -n 4 --steps 128
      unmask sample demo --length 600 --sampler first-hitting --html letter.html
      unmask sample digits -n 16 --label 7 --guidance 2 --out sevens.png
    """

    model: MODEL
    """The folder of a run or an exported model, hub:OWNER/NAME, or the name of a shipped model."""
    count: Annotated[int, tyro.conf.arg(metavar="N", aliases=["-n"])] = 4
    """How many."""
    length: Annotated[int | None, optional("N")] = None
    """Tokens of running text, also more than in training: then block by block. Default: as trained."""
    min_length: Annotated[int | None, optional("N")] = None
    """Of rows that differ in length."""
    max_length: Annotated[int | None, optional("N")] = None
    """Of rows that differ in length."""

    def run(self) -> int:
        """Imported here so that `unmask --help` does not wait for torch."""
        from unmask.run import load

        from . import sample

        wanted = self.wanted()
        model = load(self.model, compiled=self.compile)
        sampling = self.sampling(model)
        x = model.blank(self.count, self.seed, length=self.length, least=self.min_length, most=self.max_length)
        return sample.run(model, list(x), sampling, wanted)


@dataclass(frozen=True, kw_only=True)
class Infill(SamplingFlags):
    """Fill the gaps of a text, or the masked part of a picture.

    Gaps are ____ or [MASK:5]; what is given stays as it is. Examples:
      unmask infill demo "The door opened, and ________ came in."
      unmask infill demo "My dear sir, [MASK:40]" "[MASK:40] good night." -n 3
      unmask infill digits --image seven.png --mask lower-half.png --out completed.png
    """

    model: MODEL
    """The folder of a run or an exported model, hub:OWNER/NAME, or the name of a shipped model."""
    prompts: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="TEXT")] = ()
    """Texts with gaps: three or more underscores, or [MASK:N] for N tokens."""
    count: Annotated[int, tyro.conf.arg(metavar="N", aliases=["-n"])] = 1
    """Fillings of each."""
    image: Annotated[Path | None, optional("FILE")] = None
    """A picture to complete (or a .npy array)."""
    mask: Annotated[Path | None, optional("FILE")] = None
    """What to complete of it: white is drawn anew."""

    def run(self) -> int:
        from unmask.mistakes import fail, require
        from unmask.run import load

        from . import sample

        both = (self.image is None) == (self.mask is None) and (self.image is None) != (not self.prompts)
        if not both:
            got = f"{len(self.prompts)} texts, image {self.image}, mask {self.mask}"
            fail("nothing to fill, or too much", got=got, allowed="texts, or an image and its mask", do="give one kind")
        require(self.count >= 1, "the number of fillings is not positive", got=self.count, allowed=">= 1", do="use 1")
        wanted = self.wanted()
        model = load(self.model, compiled=self.compile)
        sampling = self.sampling(model)
        if self.image is not None and self.mask is not None:
            rows = [sample.picture_prompt(model, self.image, self.mask)]
        else:
            rows = [model.prompt(text) for text in self.prompts]
        return sample.run(model, [row for row in rows for _ in range(self.count)], sampling, wanted)


@dataclass(frozen=True)
class Samplers:
    """List the samplers, and what each does to the model's law.

    Example: unmask samplers --plot revealed.png
    """

    plot: Annotated[Path | None, optional("FILE")] = None
    """Draw how many tokens are revealed per step, for linear and cosine schedules and grids."""
    steps: int = 100
    """Steps of that plot."""
    length: int = 1000
    """Tokens of that plot."""
    json: bool = False
    """Print the list as JSON and nothing else."""

    def run(self) -> int:
        from . import samplers

        return samplers.run(self.plot, self.steps, self.length, self.json)


@dataclass(frozen=True)
class BenchSample:
    """Measure how fast a configuration samples here.

    With random weights, beside a straightforward implementation. Every field of the configuration is a flag too, as
    with train; the network is compiled on a GPU (--compile off: it is not). Examples:
      unmask bench sample characters -n 8 --sampling-steps 64
      unmask bench sample openwebtext-small --no-time -n 64 --sampling-steps 1024 --out sampling.json
    """

    preset: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="PRESET")]
    """A known setting; see unmask train --help."""
    count: Annotated[int, tyro.conf.arg(metavar="N", aliases=["-n"])] = 8
    """Samples at once."""
    sampling_steps: int = 128
    """Steps of the grid."""
    repeats: int = 3
    """How many times to measure."""
    no_plain: bool = False
    """Leave the straightforward implementation out: it takes by far the longest."""
    out: Annotated[Path | None, optional("FILE")] = None
    """Write the result as JSON."""
    json: bool = False
    """Print the result as JSON and nothing else."""
    settings: tyro.conf.Suppress[tuple[str, ...]] = ()
    """Fields of the configuration, as they were given."""

    def run(self) -> int:
        from . import bench_sample

        return bench_sample.run(self)
