"""The `unmask` command: parse, run, and turn a user's mistake into one line and exit code 2."""

import contextlib
import io
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Protocol

import tyro


class Command(Protocol):
    """A parsed command."""

    def run(self) -> None:
        """Do it; raise ValueError or OSError for what the user can mend."""


@dataclass(frozen=True)
class Demo:
    """See the exact core at work: tight bounds, the schedules, and a draw that float32 gets wrong.

    Example: unmask demo --out pictures
    """

    out: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("unmask-demo")
    """Folder for the picture of the schedules."""
    seed: int = 0
    """All randomness of the demo follows from this number."""
    json: bool = False
    """Print the figures as JSON and nothing else."""

    def run(self) -> None:
        """Imported here so that `unmask --help` does not wait for torch."""
        from . import demo

        demo.show(out=self.out, seed=self.seed, as_json=self.json)


COMMANDS: dict[str, Callable[..., Command]] = {"demo": Demo}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    argv = list(sys.argv[1:] if argv is None else argv)
    if argv == ["--version"]:
        from unmask import __version__

        print(f"unmask {__version__}")
        return 0
    try:
        _parse(argv or ["--help"]).run()
    except (ValueError, OSError) as mistake:
        return _complain(str(mistake))
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130
    return 0


def _parse(argv: list[str]) -> Command:
    """tyro explains a bad command line in a box of several lines; say it in one."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            command: Command = tyro.extras.subcommand_cli_from_dict(
                COMMANDS,
                prog="unmask",
                description="Masked diffusion models on any discrete data: exact, fast, in one command.",
                args=argv,
                config=(tyro.conf.FlagCreatePairsOff,),
            )
            return command
    except SystemExit as stop:
        if stop.code == 0:  # --help
            raise
        raise ValueError(_unboxed(said.getvalue())) from None


def _unboxed(text: str) -> str:
    """The sections of a box on one line, its title, rules and closing hint left out."""
    sections = [""]
    for line in text.splitlines():
        line = line.strip("│| ")
        if line.startswith(("╭", "╰", "─")):
            sections.append("")
        else:
            sections[-1] += f" {line}"
    said = (re.sub(r"\s+", " ", section).strip() for section in sections)
    return "; ".join(
        [part for part in said if part and not part.startswith("For full helptext")] + ["see unmask --help"]
    )


def _complain(message: str) -> int:
    colour = sys.stderr.isatty()
    print(f"\033[31m{message}\033[0m" if colour else message, file=sys.stderr)
    return 2
