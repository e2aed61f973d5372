"""The models that come with the package: as small as promised, and good for something."""

import math
import random
import subprocess
import sys
import time

import pytest
import torch
from safetensors import safe_open

import unmask
from unmask.run.places import SHIPPED, shipped
from unmask.run.scored import scored

LARGEST = {"demo": 16 * 2**20, "digits": 6 * 2**20}
FRANKENSTEIN = (
    "It was on a dreary night of November that I beheld the accomplishment of my toils. With an anxiety that almost "
    "amounted to agony, I collected the instruments of life around me, that I might infuse a spark of being into the "
    "lifeless thing that lay at my feet."
)
"""From the book that was held out."""


@pytest.fixture(scope="module")
def demo():
    return unmask.load("demo")


@pytest.mark.parametrize("name", LARGEST)
def test_they_are_small_and_explained(name):
    folder = SHIPPED / name
    assert (folder / "model.safetensors").stat().st_size <= LARGEST[name]
    with safe_open(folder / "model.safetensors", "pt") as file:
        assert {file.get_tensor(key).dtype for key in file.keys()} == {torch.bfloat16}  # noqa: SIM118  # no mapping
    card = (folder / "README.md").read_text()
    for part in ("## Recipe", "## Measured", "## Limits", "unmask train ", " ± "):
        assert part in card


def test_there_are_two():
    assert shipped() == sorted(LARGEST)


def bits(model, text):
    found = scored(model, text, draws=16, repeats=2, seed=0)
    return found.total, found.error


def test_text_it_never_saw_costs_less_than_two_bits_a_byte(demo):
    total, error = bits(demo, FRANKENSTEIN)
    assert (total + 4 * error) / len(FRANKENSTEIN.encode()) < 2


def test_order_matters(demo):
    """The same words in another order are much less likely: by more than a bit for each, far beyond the errors."""
    words = FRANKENSTEIN.split()
    random.Random(0).shuffle(words)  # noqa: S311  # no secret
    (right, error), (wrong, other) = bits(demo, FRANKENSTEIN), bits(demo, " ".join(words))
    assert wrong - right > len(words) + 5 * math.hypot(error, other)


def test_gaps_are_filled_between_what_is_given(demo):
    for text in demo.infill(["The door opened, and [MASK:4] came in."] * 4, seed=0):
        assert text.startswith("The door opened, and")
        assert text.endswith(" came in.")
        assert len(text) > len("The door opened, and came in.") + 2


def test_digits_are_what_was_asked_for():
    """By ink: a one has about half of what a zero has. Means of four."""
    model = unmask.load("digits")
    ink = [model.sample_tokens(4, label=label, steps=16, seed=1).tokens.double().mean() for label in (1, 0)]
    assert ink[0] < 0.75 * ink[1]


def test_the_first_token_appears_within_ten_seconds(tmp_path):
    """From the start of the command, imports and all."""
    command = [sys.executable, "-u", "-m", "unmask", "demo", "--skip", "fill", "score", "digits", "train", "exact"]
    start = time.perf_counter()
    with subprocess.Popen([*command, "--out", str(tmp_path)], stdout=subprocess.PIPE, text=True) as process:
        process.stdout.readline()  # the heading
        assert "%" in process.stdout.readline()  # so much is revealed
        passed = time.perf_counter() - start
        process.kill()
    assert passed < 10
