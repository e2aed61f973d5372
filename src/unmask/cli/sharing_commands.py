"""The commands that hand models on and look at them: export, push, info, plot."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from .flags import MODEL, optional


@dataclass(frozen=True)
class Export:
    """Write a model as a folder of its own, with a card.

    The folder holds configuration, vocabulary, weights (safetensors) and a README, and no path of this machine. A
    folder that holds an export already is replaced; one that holds anything else is left alone. Examples:
      unmask export runs/shakespeare models/shakespeare
      unmask export runs/shakespeare models/small --best --dtype bf16
    """

    model: MODEL
    """The folder of a run; or another model, to store it anew."""
    out: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="OUT")]
    """A new folder."""
    best: bool = False
    """The checkpoint with the lowest held-out bound instead of the newest."""
    raw: bool = False
    """The plain weights instead of their average."""
    dtype: Literal["fp32", "bf16"] = "fp32"
    """How the weights are stored; bf16 takes half the room and rounds them. Once loaded they are float32."""
    json: bool = False
    """Print what was written as JSON and nothing else."""

    def run(self) -> int:
        """Imported here so that `unmask --help` does not wait for torch."""
        from . import sharing

        return sharing.run_export(self.model, self.out, self.best, self.raw, self.dtype, self.json)


@dataclass(frozen=True)
class Push:
    """Put a model on the Hugging Face hub, or into a folder.

    A run is exported first. The token is that of huggingface_hub: HF_TOKEN, or hf auth login. Afterwards everybody
    who may see it uses it as hub:OWNER/NAME. Examples:
      unmask push runs/shakespeare someone/shakespeare --private
      unmask push models/small someone/small --message "bf16"
      unmask push runs/shakespeare file:shared/shakespeare
    """

    model: MODEL
    """The folder of a run, or another model."""
    repo: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="REPO")]
    """OWNER/NAME on the hub, made if it is not there; or file:DIR."""
    private: bool = False
    """Make a new repository that only you see."""
    message: str = "Model made by unmask"
    """Of the commit."""
    best: bool = False
    """Of a run: the checkpoint with the lowest held-out bound instead of the newest."""
    raw: bool = False
    """Of a run: the plain weights instead of their average."""
    dtype: Literal["fp32", "bf16"] = "fp32"
    """How the weights of a run are stored."""
    json: bool = False
    """Print where it is as JSON and nothing else."""

    def run(self) -> int:
        from . import sharing

        return sharing.run_push(self)


@dataclass(frozen=True)
class Info:
    """Explain any folder of ours: prepared data, a run, a model.

    It says what is in it, how it came about, how far it is, and what to do next. Examples:
      unmask info demo
      unmask info data/book --examples 5
      unmask info hub:someone/shakespeare --json
    """

    target: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="DIR|MODEL")]
    """A folder of prepared data, of a run or of an exported model, hub:OWNER/NAME, or a shipped model's name."""
    examples: int = 3
    """How many rows of prepared data to show."""
    json: bool = False
    """Print what is known as JSON and nothing else."""

    def run(self) -> int:
        from . import info

        return info.run(self.target, self.examples, self.json)


@dataclass(frozen=True)
class Plot:
    """Draw a run: loss, schedule, tokens per step, learned w.

    Several runs share the axes. Examples:
      unmask plot runs/shakespeare
      unmask plot runs/md4 runs/genmd4 --out comparison --format svg
    """

    models: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="RUN …")]
    """Folders of runs; other models have no loss to draw."""
    out: Annotated[Path | None, optional("DIR")] = None
    """Where to write; needed for several runs. Default: RUN/plots, or results/MODEL/plots for another model."""
    format: Literal["png", "svg"] = "png"
    """Of the pictures."""
    steps: int = 64
    """Steps of the sampler whose tokens per step are drawn."""
    json: bool = False
    """Print the list of files as JSON and nothing else."""

    def run(self) -> int:
        from . import plot

        return plot.run(self.models, self.out, self.format, self.steps, self.json)
