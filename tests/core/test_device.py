"""What the machine can do."""

import subprocess
import sys

FORKS = """
import os, sys, torch
import unmask.core

torch.set_num_threads(2)
def work():
    return float(torch.rand(512, 512).softmax(-1).cumsum(-1).sum())

work()
child = os.fork()
work()
if not child:
    os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_process_that_has_computed_may_fork():
    """With torch alone the child waits for threads that only its parent has."""
    found = subprocess.run([sys.executable, "-c", FORKS], capture_output=True, text=True, timeout=60, check=True)
    assert found.stdout == "7\n"
