"""Pictures. matplotlib is an extra and is imported only here."""

from pathlib import Path

import torch

from unmask.core import Cosine, Geometric, Linear, Polynomial, Schedule
from unmask.mistakes import extra

SCHEDULES: dict[str, Schedule] = {
    "linear": Linear(),
    "polynomial, w = 2": Polynomial(2.0),
    "geometric": Geometric(),
    "cosine": Cosine(),
}


def draw_schedules(path: Path) -> None:
    """The paper's Figure 1: α_t of each schedule, and the weight −α'_t/(1−α_t) of its cross-entropy."""
    extra("matplotlib", "plot", "a picture").use("Agg")
    from matplotlib import pyplot as plt

    t = torch.linspace(0, 1, 501, dtype=torch.float64)[1:-1]
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
    for name, schedule in SCHEDULES.items():
        left.plot(t, schedule.alpha(t), label=name)
        right.plot(t, -schedule.loss_weight(t), label=name)
    left.set(xlabel="time t", ylabel="α$_t$, probability still visible", xlim=(0, 1), ylim=(0, 1))
    right.set(xlabel="time t", ylabel="weight of the cross-entropy", xlim=(0, 1), ylim=(0, 10))
    left.legend(frameon=False)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)
