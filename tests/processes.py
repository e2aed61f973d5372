"""Commands in real processes."""

import json
import sys

SEVERAL = """
import json, sys
from unmask.cli.main import main
for words in json.loads(sys.argv[1]):
    print("###", flush=True)
    try:
        code = main(words)
    except SystemExit as stop:
        code = stop.code
    print(f"exit {code}", flush=True)
"""


def several(*commands):
    """A process that runs one command after another: starting is what takes the time."""
    return [sys.executable, "-c", SEVERAL, json.dumps([[str(word) for word in words] for words in commands])]
