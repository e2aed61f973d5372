"""Training keeps to the memory it announces."""

import json
import subprocess
import sys

TRAIN = """
import json, torch
from pathlib import Path
from unmask.networks import TransformerConfig, cost
from unmask.run import RunConfig
from unmask.run.bench import MadeUp
from unmask.training import MD4Config, Trainer, TrainingConfig
from unmask.evaluation.loss import chunk_size

torch.set_num_threads(1)
vocabulary, length, batch = 50257, 128, 16
config = TransformerConfig(vocabulary, 2, 2, 64)
estimate = cost(config.build, (length,)).memory(batch, False, chunk_size(vocabulary))

def peak():  # not ru_maxrss: a new process starts with its parent's
    line = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024

def steps(config, vocabulary):
    method = MD4Config().build(config.build())
    data = MadeUp((length,), vocabulary, 0)
    trainer = Trainer(TrainingConfig(batch_size=batch), method, data, None, Path(), torch.device("cpu"))
    for _ in range(3):
        trainer.launch()

steps(TransformerConfig(5, 1, 2, 16), 5)  # what torch itself needs
before = peak()
steps(config, vocabulary)
print(json.dumps({"estimate": estimate, "used": peak() - before}))
"""


def test_a_large_vocabulary_stays_under_the_estimate():
    """V = 50,257: weights, moments, activations and one chunk of logits."""
    done = subprocess.run([sys.executable, "-c", TRAIN], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert 0.1 * found["estimate"] < found["used"] < found["estimate"]
