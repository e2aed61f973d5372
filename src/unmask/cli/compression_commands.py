"""The commands that make text small by a model: compress, decompress."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from .flags import MODEL, optional


@dataclass(frozen=True)
class Compress:
    """Make a text small by a model that knows its kind, without loss.

    What is written is as long as the model's bound says, with 32 steps one or two per cent longer, and a header of 200
    bytes. Reading it needs the same model, and a machine that computes to the last bit as this one does; what would
    come out differently is refused. Examples:
      unmask compress demo book.txt
      unmask compress runs/shakespeare play.txt --steps 128 --out play.small
    """

    model: MODEL
    """The folder of a run or an exported model, hub:OWNER/NAME, or the name of a shipped model: of running text."""
    file: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="FILE")]
    """A text."""
    out: Annotated[Path | None, optional("FILE")] = None
    """Where to write. Default: FILE.unmask, which must not be there yet."""
    steps: int = 32
    """Network calls for each window of the text: more take longer and make it smaller."""
    json: bool = False
    """Print the sizes as JSON and nothing else."""

    def run(self) -> int:
        """Imported here so that `unmask --help` does not wait for torch."""
        from . import compression

        return compression.run_compress(self.model, self.file, self.out, self.steps, self.json)


@dataclass(frozen=True)
class Decompress:
    """Get back a text that unmask compress made small.

    Byte for byte, or not at all. Examples:
      unmask decompress book.txt.unmask
      unmask decompress play.small --model runs/shakespeare --out again.txt
    """

    file: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="FILE")]
    """What unmask compress wrote."""
    out: Annotated[Path | None, optional("FILE")] = None
    """Where to write. Default: FILE without .unmask, which must not be there yet."""
    model: Annotated[str | None, optional("MODEL")] = None
    """The model, where it has another name or place by now. Default: as it was called then."""
    json: bool = False
    """Print the sizes as JSON and nothing else."""

    def run(self) -> int:
        from . import compression

        return compression.run_decompress(self.file, self.out, self.model, self.json)
