"""The command line, in this process or in one of its own."""

import sys

from unmask.cli.main import main

from . import processes

UNMASK = [sys.executable, "-m", "unmask"]


def command(capsys, *words):
    """(exit code, stdout, stderr) of `unmask WORDS` in this process."""
    code = main([str(word) for word in words])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def run(*words, **options):
    """`unmask WORDS` as a process."""
    return processes.run(
        [*UNMASK, *map(str, words)], capture_output=True, text=True, timeout=300, check=False, **options
    )
