"""Commands of a document, one after the other in one process: torch is imported once, not for each."""

import shlex
import sys

from unmask.cli.main import main

if __name__ == "__main__":
    for line in sys.stdin.read().splitlines():
        print(f"$ {line}", flush=True)
        code = main(shlex.split(line)[1:])
        if code:
            print(f"exit code {code}: {line}", file=sys.stderr)
            sys.exit(code)
