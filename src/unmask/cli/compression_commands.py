"""The commands that compress text with a model: compress, decompress."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from .flags import MODEL, optional


@dataclass(frozen=True)
class Compress:
    """Compress a text file losslessly, using a model of similar text.

    The compressed size is what the model's bound says, one or two per cent more with 32 steps, plus a header of 200
    bytes. Decompressing needs the same model, and a machine that reproduces the computation to the last bit; a text
    that would come out differently is refused. Examples:
      unmask compress demo book.txt
      unmask compress runs/shakespeare play.txt --steps 128 --out play.small
    """

    model: MODEL
    """A model of running text: folder of a run or an exported model, hub:OWNER/NAME, or a shipped model's name."""
    file: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="FILE")]
    """Text file to compress."""
    out: Annotated[Path | None, optional("FILE")] = None
    """Output file. Default: FILE.unmask, which must not exist yet."""
    steps: int = 32
    """Network calls for each window of the text; more take longer and compress better."""
    json: bool = False
    """Print the sizes as JSON and nothing else."""

    def run(self) -> int:
        """Imported here so that `unmask --help` does not wait for torch."""
        from . import compression

        return compression.run_compress(self.model, self.file, self.out, self.steps, self.json)


@dataclass(frozen=True)
class Decompress:
    """Restore a text file that unmask compress has compressed.

    The text is restored byte for byte, or not at all. Examples:
      unmask decompress book.txt.unmask
      unmask decompress play.small --model runs/shakespeare --out again.txt
    """

    file: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="FILE")]
    """File written by unmask compress."""
    out: Annotated[Path | None, optional("FILE")] = None
    """Output file. Default: FILE without .unmask, which must not exist yet."""
    model: Annotated[str | None, optional("MODEL")] = None
    """The model, if its name or location has changed. Default: the name it had when the file was compressed."""
    json: bool = False
    """Print the sizes as JSON and nothing else."""

    def run(self) -> int:
        from . import compression

        return compression.run_decompress(self.file, self.out, self.model, self.json)
