"""What the tests share: deterministic hypothesis, and one thread per worker so that workers do not fight."""

import os

import torch
from hypothesis import settings

settings.register_profile("fixed", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("fixed")

if "PYTEST_XDIST_WORKER" in os.environ:
    torch.set_num_threads(1)
