"""The network of FID, against the same network written out layer by layer from TensorFlow's graph of 2015."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from unmask.evaluation import extractor
from unmask.evaluation.inception import Inception, legacy_resize


def random_weights():
    """With the names of the true file; means and variances are not fitted yet."""
    generator = torch.Generator().manual_seed(0)
    state = Inception().state_dict()
    for name, value in state.items():
        if name.endswith("conv.weight"):
            value.copy_(torch.randn(value.shape, generator=generator) * (0.01 / value[0].numel()) ** 0.5)
        elif name.endswith(("bn.weight", "bn.bias")):
            value.add_(0.3 * torch.randn(value.shape, generator=generator))
    return state


class Written:
    """The network as a list of its operations, from the names in the file with its weights.

    fitting: take means and variances from the inputs, as training does, so that no layer drowns its input.
    """

    def __init__(self, state, fitting=False):
        self.state, self.fitting = state, fitting

    def conv(self, name, x, stride=1, padding=0):
        weight, scale, shift, mean, variance = (
            self.state[f"{name}.{part}"]
            for part in ("conv.weight", "bn.weight", "bn.bias", "bn.running_mean", "bn.running_var")
        )
        x = F.conv2d(x, weight, stride=stride, padding=padding)
        if self.fitting:
            mean.copy_(x.mean((0, 2, 3)))
            variance.copy_(x.var((0, 2, 3)))
        factor = scale / (variance + 0.001).sqrt()
        return (factor[:, None, None] * x + (shift - mean * factor)[:, None, None]).clamp(min=0)

    def a(self, name, x):
        one = self.conv(f"{name}.branch1x1", x)
        five = self.conv(f"{name}.branch5x5_2", self.conv(f"{name}.branch5x5_1", x), padding=2)
        double = self.conv(f"{name}.branch3x3dbl_2", self.conv(f"{name}.branch3x3dbl_1", x), padding=1)
        double = self.conv(f"{name}.branch3x3dbl_3", double, padding=1)
        return torch.cat([one, five, double, self.conv(f"{name}.branch_pool", mean_of_nine(x))], 1)

    def b(self, name, x):
        three = self.conv(f"{name}.branch3x3", x, stride=2)
        double = self.conv(f"{name}.branch3x3dbl_2", self.conv(f"{name}.branch3x3dbl_1", x), padding=1)
        double = self.conv(f"{name}.branch3x3dbl_3", double, stride=2)
        return torch.cat([three, double, F.max_pool2d(x, 3, 2)], 1)

    def c(self, name, x):
        lying, standing = (0, 3), (3, 0)
        one = self.conv(f"{name}.branch1x1", x)
        seven = self.conv(f"{name}.branch7x7_2", self.conv(f"{name}.branch7x7_1", x), padding=lying)
        seven = self.conv(f"{name}.branch7x7_3", seven, padding=standing)
        double = self.conv(f"{name}.branch7x7dbl_1", x)
        for number, padding in ((2, standing), (3, lying), (4, standing), (5, lying)):
            double = self.conv(f"{name}.branch7x7dbl_{number}", double, padding=padding)
        return torch.cat([one, seven, double, self.conv(f"{name}.branch_pool", mean_of_nine(x))], 1)

    def d(self, name, x):
        three = self.conv(f"{name}.branch3x3_2", self.conv(f"{name}.branch3x3_1", x), stride=2)
        seven = self.conv(f"{name}.branch7x7x3_2", self.conv(f"{name}.branch7x7x3_1", x), padding=(0, 3))
        seven = self.conv(f"{name}.branch7x7x3_3", seven, padding=(3, 0))
        seven = self.conv(f"{name}.branch7x7x3_4", seven, stride=2)
        return torch.cat([three, seven, F.max_pool2d(x, 3, 2)], 1)

    def e(self, name, x, pooled):
        one, three = self.conv(f"{name}.branch1x1", x), self.conv(f"{name}.branch3x3_1", x)
        double = self.conv(f"{name}.branch3x3dbl_2", self.conv(f"{name}.branch3x3dbl_1", x), padding=1)
        parts = [one]
        for branch, inside in (("branch3x3_2", three), ("branch3x3dbl_3", double)):
            parts.append(self.conv(f"{name}.{branch}a", inside, padding=(0, 1)))
            parts.append(self.conv(f"{name}.{branch}b", inside, padding=(1, 0)))
        return torch.cat([*parts, self.conv(f"{name}.branch_pool", pooled)], 1)

    def __call__(self, images):
        """Bytes [B, H, W, 3] → [B, 2048]."""
        x = torch.from_numpy(resized(images, 299)).permute(0, 3, 1, 2).float() / 128 - 1
        x = self.conv("Conv2d_1a_3x3", x, stride=2)
        x = self.conv("Conv2d_2b_3x3", self.conv("Conv2d_2a_3x3", x), padding=1)
        x = self.conv("Conv2d_3b_1x1", F.max_pool2d(x, 3, 2))
        x = F.max_pool2d(self.conv("Conv2d_4a_3x3", x), 3, 2)
        x = self.a("Mixed_5d", self.a("Mixed_5c", self.a("Mixed_5b", x)))
        x = self.b("Mixed_6a", x)
        x = self.c("Mixed_6e", self.c("Mixed_6d", self.c("Mixed_6c", self.c("Mixed_6b", x))))
        x = self.d("Mixed_7a", x)
        x = self.e("Mixed_7b", x, mean_of_nine(x))
        x = self.e("Mixed_7c", x, largest_of_nine(x))
        assert x.shape[2:] == (8, 8)
        return x.sum((2, 3)) / 64


def mean_of_nine(x):
    """The mean over existing pixels: four in a corner, six at an edge."""
    there = torch.ones_like(x[:1, :1])
    return sum_of_nine(x) / sum_of_nine(there)


def sum_of_nine(x):
    return F.unfold(x.flatten(0, 1)[:, None], 3, padding=1).sum(1).view(x.shape)


def largest_of_nine(x):
    return F.max_pool2d(F.pad(x, (1, 1, 1, 1), value=-torch.inf), 3, 1)


def resized(images, side):
    """TensorFlow 1's kernel: the four pixels around (y·H/side, x·W/side), the last one repeated beyond."""
    _, height, width, _ = images.shape
    y, x = np.arange(side) * (height / side), np.arange(side) * (width / side)
    top, left = np.floor(y).astype(int), np.floor(x).astype(int)
    bottom, right = np.minimum(top + 1, height - 1), np.minimum(left + 1, width - 1)
    y, x = (y - top)[:, None, None], (x - left)[:, None]
    pixels = images.astype(np.float64)
    upper = pixels[:, top][:, :, left] * (1 - x) + pixels[:, top][:, :, right] * x
    lower = pixels[:, bottom][:, :, left] * (1 - x) + pixels[:, bottom][:, :, right] * x
    return upper * (1 - y) + lower * y


@pytest.mark.parametrize(("height", "width", "side"), [(8, 5, 20), (5, 5, 5), (40, 31, 17)], ids=str)
def test_resizing_is_tensorflows(height, width, side):
    """To more pixels, to as many, and to fewer, without a mean over those in between."""
    images = np.random.default_rng(0).integers(0, 256, (2, height, width, 3), dtype=np.uint8)
    found = legacy_resize(torch.from_numpy(images).permute(0, 3, 1, 2).float(), side).permute(0, 2, 3, 1)
    torch.testing.assert_close(found, torch.from_numpy(resized(images, side)).float(), rtol=0, atol=0.01)


@torch.no_grad()
def test_features_are_those_of_the_network_of_2015(tmp_path):
    """From bytes to features, with random weights: every layer, its padding, its pools and its order counts."""
    images = np.random.default_rng(0).integers(0, 256, (2, 12, 9, 3), dtype=np.uint8)
    images[1] = images[1, ..., :1]  # a grey one
    state = random_weights()
    Written(state, fitting=True)(images)
    torch.save(state, tmp_path / "weights.pth")
    of = extractor(f"inception:{tmp_path / 'weights.pth'}").of
    found, expected = torch.from_numpy(of(images)).float(), Written(state)(images)
    assert (found[0] - found[1]).std() > 0.1 * found.std()
    near = {"rtol": 0, "atol": 0.01 * expected.std().item()}
    torch.testing.assert_close(found, expected, **near)
    torch.testing.assert_close(torch.from_numpy(of(images[1:, ..., 0])).float(), found[1:], **near)
