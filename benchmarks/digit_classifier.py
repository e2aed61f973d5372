"""A small digit classifier, trained in seconds: it classifies samples, and distances are computed from its features."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from unmask.evaluation.distances import Features

Images = NDArray[np.uint8]
"""Images [n, H, W]."""
FEATURES = 32
_BATCH = 1000


class Classifier(nn.Module):
    """Two strided convolutions, a layer of 32 features, and an output for each class (ten by default)."""

    def __init__(self, shape: tuple[int, ...], classes: int):
        super().__init__()
        height, width = (-(-side // 4) for side in shape)
        self.body = nn.Sequential(
            nn.Conv2d(1, 32, 3, 2, 1), nn.ReLU(), nn.Conv2d(32, 64, 3, 2, 1), nn.ReLU(), nn.Flatten(1)
        )
        self.features = nn.Linear(64 * height * width, FEATURES)
        self.head = nn.Linear(FEATURES, classes)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Features before the ReLU [n, 32], and logits [n, classes], of images in 0..1 [n, H, W]."""
        features = self.features(self.body(x[:, None]))
        return features, self.head(features.relu())


@dataclass(frozen=True)
class Read:
    """The features and the predicted classes of images."""

    features: Features
    classes: NDArray[np.int64]


@dataclass(frozen=True)
class Reader:
    """A trained classifier."""

    network: Classifier
    centre: Features | float = 0.0
    scale: float = 1.0
    """Scale of the features; distances depend on it."""

    @torch.no_grad()
    def __call__(self, images: Images) -> Read:
        found = [self.network(part) for part in torch.split(_as_floats(images, self.network), _BATCH)]
        features = torch.cat([f for f, _ in found]).double().cpu().numpy()
        return Read(
            (features - self.centre) * self.scale, torch.cat([logits.argmax(1) for _, logits in found]).cpu().numpy()
        )

    def scaled_to(self, images: Images) -> "Reader":
        """The same reader with features of mean 0 and average variance 1 over these images."""
        plain = Reader(self.network)(images).features
        return Reader(self.network, plain.mean(0), float(1 / np.sqrt(plain.var(0).mean())))


def trained(
    images: Images, labels: NDArray[np.int64], device: torch.device, *, epochs: int = 3, batch: int = 128, seed: int = 0
) -> Reader:
    """Train with AdamW and one cycle of the learning rate over a few epochs."""
    torch.manual_seed(seed)
    network = Classifier(images.shape[1:], int(labels.max()) + 1).to(device)
    optimizer = torch.optim.AdamW(network.parameters(), weight_decay=0.01)
    per_epoch = -(-len(images) // batch)
    rate = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=epochs * per_epoch)
    x, y = _as_floats(images, network), torch.from_numpy(labels).to(device)
    for _ in range(epochs):
        for rows in torch.split(torch.randperm(len(x)).to(device), batch):
            optimizer.zero_grad()
            torch.autograd.backward(cross_entropy(network(x[rows])[1], y[rows]))
            optimizer.step()
            rate.step()
    return Reader(network.requires_grad_(False).eval())


def _as_floats(images: Images, network: Classifier) -> Tensor:
    device = next(network.parameters()).device
    return torch.from_numpy(images).to(device).float() / 255
