"""The commands that draw from a model: sample, infill, samplers, bench sample."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from unmask.mistakes import require

from .flags import MODEL, optional

if TYPE_CHECKING:
    from unmask.run import Model, Sampling

    from .sample import Wanted


@dataclass(frozen=True, kw_only=True)
class SamplingFlags:
    """Options that sample and infill share."""

    sampler: Annotated[str | None, optional("NAME")] = None
    """Sampler to use; see unmask samplers. Default: the one that fits the model, mostly ancestral."""
    steps: Annotated[int | None, optional("INT")] = None
    """Steps of the time grid. Default: 256; samplers without a grid make as many network calls as they need."""
    grid: Annotated[Literal["uniform", "cosine"] | None, optional("NAME")] = None
    """Time grid: uniform or cosine. Default: cosine for linear and polynomial schedules, else uniform."""
    option: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME=VALUE", help_behavior_hint="")] = ()
    """Options of the sampler, such as eta=0.1."""
    seed: int = 0
    """Random seed; sample i depends only on the seed and i."""
    temperature: float = 1.0
    """Sampling temperature; below 1: more likely tokens, 0: only the most likely. Changes the distribution."""
    top_k: Annotated[int | None, optional("K")] = None
    """Sample only from the K most likely tokens."""
    top_p: Annotated[float | None, optional("P")] = None
    """Sample only from the most likely tokens whose probabilities add up to P."""
    label: Annotated[str | None, optional("CLASS")] = None
    """Class to sample, by name or number."""
    guidance: Annotated[float | None, optional("G")] = None
    """Strength of guidance; above 1, samples follow the class more closely, or, without one, the prompt."""
    rising: bool = False
    """Make guidance weak while most tokens are masked, and stronger as they are revealed."""
    batch_size: int = 64
    """Samples drawn at once."""
    compile: bool = False
    """Compile the network first; worth it for long jobs on a GPU."""
    trim: bool = False
    """Cut each sample at its first end-of-text token."""
    out: Annotated[Path | None, optional("FILE")] = None
    """Write the samples to a file: .txt, .json, .npz, or .png for images."""
    gif: Annotated[Path | None, optional("FILE")] = None
    """Write an animated GIF of the first samples."""
    html: Annotated[Path | None, optional("FILE")] = None
    """Write an HTML page that plays back the first samples."""
    json: bool = False
    """Print the samples as JSON and nothing else."""

    def sampling(self, model: "Model") -> "Sampling":
        """The settings for a model; its own sampler is used unless another is named."""
        from unmask.run import Sampling
        from unmask.sampling import find_sampler, options_of

        sampler = self.sampler or model.method.family.sampler
        for flag, got in (("--steps", self.steps), ("--grid", self.grid)):
            unused = got is not None and not find_sampler(sampler).grid
            require(not unused, f"{sampler} does not use {flag}", got=got, allowed="none", do="leave it out")
        return Sampling(
            sampler=sampler,
            steps=Sampling.steps if self.steps is None else self.steps,
            grid=self.grid,
            seed=self.seed,
            temperature=self.temperature,
            top_k=self.top_k,
            top_p=self.top_p,
            label=self.label,
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

    Samples follow the model's distribution, unless the sampler or an option changes it. Examples:
      unmask sample demo -n 4 --steps 128
      unmask sample demo --length 600 --sampler first-hitting --html letter.html
      unmask sample digits -n 16 --label 7 --guidance 2 --out sevens.png
    """

    model: MODEL
    """Folder of a run or of an exported model, hub:OWNER/NAME, or the name of a shipped model."""
    count: Annotated[int, tyro.conf.arg(metavar="N", aliases=["-n"])] = 4
    """Number of samples."""
    length: Annotated[int | None, optional("N")] = None
    """Tokens of running text; texts longer than in training are sampled block by block. Default: as in training."""
    min_length: Annotated[int | None, optional("N")] = None
    """Shortest length to draw, for a model whose rows differ in length."""
    max_length: Annotated[int | None, optional("N")] = None
    """Longest length to draw, for a model whose rows differ in length."""

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
    """Fill the gaps in a text, or the masked part of an image.

    Gaps are written ____ or [MASK:5]; the rest stays as it is. Examples:
      unmask infill demo "The door opened, and ________ came in."
      unmask infill demo "My dear sir, [MASK:40]" "[MASK:40] good night." -n 3
      unmask infill digits --image seven.png --mask lower-half.png --out completed.png
    """

    model: MODEL
    """Folder of a run or of an exported model, hub:OWNER/NAME, or the name of a shipped model."""
    prompts: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="TEXT", help_behavior_hint="")] = ()
    """Texts with gaps: three or more underscores, or [MASK:N] for N tokens. - reads one from the standard input."""
    count: Annotated[int, tyro.conf.arg(metavar="N", aliases=["-n"])] = 1
    """Number of completions for each text, or for the image."""
    image: Annotated[Path | None, optional("FILE")] = None
    """Image to complete (or a .npy array)."""
    mask: Annotated[Path | None, optional("FILE")] = None
    """Mask of the image: white parts are filled in."""

    def run(self) -> int:
        from unmask.mistakes import fail, require
        from unmask.run import load

        from . import sample
        from .machine import standard_input

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
            rows = [model.prompt(standard_input() if text == "-" else text) for text in self.prompts]
        return sample.run(model, [row for row in rows for _ in range(self.count)], sampling, wanted)


@dataclass(frozen=True)
class Samplers:
    """List the samplers, and how each changes the distribution.

    Example: unmask samplers --plot revealed.png
    """

    plot: Annotated[Path | None, optional("FILE")] = None
    """Plot how many tokens are revealed per step, for linear and cosine schedules and grids."""
    steps: int = 100
    """Number of sampling steps in the plot."""
    length: int = 1000
    """Number of tokens in the plot."""
    json: bool = False
    """Print the list as JSON and nothing else."""

    def run(self) -> int:
        from . import samplers

        return samplers.run(self.plot, self.steps, self.length, self.json)


@dataclass(frozen=True)
class BenchSample:
    """Measure how fast a configuration samples on this machine.

    It uses random weights, and a straightforward implementation for comparison. Every configuration field is also an
    option, as with unmask train; the network is compiled on a GPU (unless --compile off). Examples:
      unmask bench sample characters -n 8 --sampling-steps 64
      unmask bench sample openwebtext-small --no-time -n 64 --sampling-steps 1024 --out sampling.json
    """

    preset: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="PRESET")]
    """A preset from the list below."""
    count: Annotated[int, tyro.conf.arg(metavar="N", aliases=["-n"])] = 8
    """Samples drawn at once."""
    sampling_steps: int = 128
    """Steps of the time grid."""
    repeats: int = 3
    """Number of times to measure."""
    no_plain: bool = False
    """Leave out the straightforward implementation, which takes by far the longest."""
    out: Annotated[Path | None, optional("FILE")] = None
    """Write the result to a JSON file."""
    json: bool = False
    """Print the result as JSON and nothing else."""
    settings: tyro.conf.Suppress[tuple[str, ...]] = ()
    """Fields of the configuration, as they were given."""

    def run(self) -> int:
        from . import bench_sample

        return bench_sample.run(self)
