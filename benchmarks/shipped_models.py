"""The figures on the card of a shipped model: the bound on held-out data, and unselected samples.

python -m benchmarks.shipped_models demo data/books
python -m benchmarks.shipped_models digits data/mnist
"""

from pathlib import Path
from typing import Any

from unmask.run import Model, load
from unmask.run.evaluate import Evaluation, evaluate
from unmask.run.folder import WEIGHTS
from unmask.run.places import find_model

from .record import Record, command

GAPS = (
    "The door opened, and [MASK:4] came in.",
    "She had never seen [MASK:3] so [MASK:2] before.",
    "In the [MASK:1] of the night, a [MASK:6] was heard.",
)


WAYS: dict[str, dict[str, Any]] = {
    "--steps 192": {"steps": 192},
    "--steps 192 --temperature 0.7": {"steps": 192, "temperature": 0.7},
    "--steps 384 --top-p 0.9 --sampler remask-loop": {"steps": 384, "top_p": 0.9, "sampler": "remask-loop"},
}
"""How the samples on the card are drawn: from the model's own distribution, and with settings that read better."""


def written(model: Model) -> dict[str, Any]:
    """The first samples of seed 0, and the first fillings of three gaps."""
    return {
        "samples": {flags: model.sample(2, seed=0, **way) for flags, way in WAYS.items()},
        "filled": {text: model.infill([text] * 3, seed=0) for text in GAPS},
    }


def main(name: str, data: str) -> None:
    """Measure, sample and record."""
    record, source, model = Record(f"shipped_{name}", seed=0), find_model(name), load(name)
    record.write(
        model=name,
        parameters=sum(p.numel() for p in model.method.parameters()),
        mebibytes=round((source.folder / WEIGHTS).stat().st_size / 2**20, 2),
        data=Path(data).name,
        result=evaluate(source, Evaluation("test", data=data)).document() | {"data": None},
        **({} if model.network.classes else written(model)),
    )


if __name__ == "__main__":
    command(main)
