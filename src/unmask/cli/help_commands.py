"""The command for shell completion."""

from dataclasses import dataclass
from typing import Annotated, Literal

import tyro


@dataclass(frozen=True)
class Completion:
    """Print a script that completes commands in your shell.

    To install it, add the first line to ~/.bashrc, or save the second's file in a folder on zsh's fpath. Examples:
      eval "$(unmask completion bash)"
      unmask completion zsh > ~/.zfunc/_unmask
    """

    shell: Annotated[tyro.conf.Positional[Literal["bash", "zsh"]], tyro.conf.arg(metavar="{bash,zsh}")]
    """Shell to complete commands in."""
    json: bool = False
    """Print the script as JSON and nothing else."""

    def run(self) -> int:
        """Imported here because the script covers all commands, this one included."""
        from . import completion

        return completion.run(self.shell, self.json)
