"""The commands that share and inspect models: export, push, info, plot."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from .flags import MODEL, optional


@dataclass(frozen=True)
class Export:
    """Write a model to a self-contained folder, with a model card.

    The folder holds the configuration, vocabulary, weights (safetensors) and a README, and no path of this machine. An
    existing export is replaced; a folder that holds anything else is left alone. Examples:
      unmask export runs/shakespeare models/shakespeare
      unmask export runs/shakespeare models/small --best --dtype bf16
    """

    model: MODEL
    """Folder of a run, or another model to write again."""
    out: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="OUT")]
    """New folder for the model."""
    best: bool = False
    """Use the checkpoint with the lowest held-out bound instead of the newest."""
    raw: bool = False
    """Use the raw weights instead of their moving average."""
    dtype: Literal["fp32", "bf16"] = "fp32"
    """Type in which the weights are stored; bf16 halves the size and rounds them. They are loaded as float32."""
    json: bool = False
    """Print what was written as JSON and nothing else."""

    def run(self) -> int:
        """Imported here so that `unmask --help` does not wait for torch."""
        from . import sharing

        return sharing.run_export(self.model, self.out, self.best, self.raw, self.dtype, self.json)


@dataclass(frozen=True)
class Push:
    """Upload a model to the Hugging Face Hub, or copy it to a folder.

    A run is exported first. The access token is that of huggingface_hub: HF_TOKEN, or hf auth login. Afterwards
    everybody who has access can use the model as hub:OWNER/NAME. Examples:
      unmask push runs/shakespeare someone/shakespeare --private
      unmask push models/small someone/small --message "bf16"
      unmask push runs/shakespeare file:shared/shakespeare
    """

    model: MODEL
    """Folder of a run, or another model."""
    repo: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="REPO")]
    """OWNER/NAME on the hub, created if it does not exist; or file:DIR."""
    private: bool = False
    """Make a new repository private."""
    message: str = "Model made by unmask"
    """Commit message."""
    best: bool = False
    """For a run: use the checkpoint with the lowest held-out bound instead of the newest."""
    raw: bool = False
    """For a run: use the raw weights instead of their moving average."""
    dtype: Literal["fp32", "bf16"] = "fp32"
    """For a run: type in which the weights are stored."""
    json: bool = False
    """Print its location as JSON and nothing else."""

    def run(self) -> int:
        from . import sharing

        return sharing.run_push(self)


@dataclass(frozen=True)
class Info:
    """Describe a folder: prepared data, a run or a model.

    It shows what the folder holds, how it was made, how far it has got, and what to do next. Examples:
      unmask info demo
      unmask info data/book --examples 5
      unmask info hub:someone/shakespeare --json
    """

    target: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="DIR|MODEL")]
    """Folder of prepared data, a run or an exported model, hub:OWNER/NAME, or the name of a shipped model."""
    examples: int = 3
    """Number of rows of prepared data to show."""
    json: bool = False
    """Print the description as JSON and nothing else."""

    def run(self) -> int:
        from . import info

        return info.run(self.target, self.examples, self.json)


@dataclass(frozen=True)
class Plot:
    """Plot runs: loss, schedule, tokens per step, learned w.

    Several runs are drawn on the same axes. Examples:
      unmask plot runs/shakespeare
      unmask plot runs/md4 runs/genmd4 --out comparison --format svg
    """

    models: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="RUN …", help_behavior_hint="")]
    """Folders of runs; other models have no loss to plot."""
    out: Annotated[Path | None, optional("DIR")] = None
    """Output folder; required for several runs. Default: RUN/plots, or results/MODEL/plots for another model."""
    format: Literal["png", "svg"] = "png"
    """File format of the plots."""
    steps: int = 64
    """Sampling steps in the plot of tokens per step."""
    json: bool = False
    """Print the list of files as JSON and nothing else."""

    def run(self) -> int:
        from . import plot

        return plot.run(self.models, self.out, self.format, self.steps, self.json)
