"""Image networks written out from their papers: those of PyTorch pull request 87741's table."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from benchmarks.zoo.model import Built, Model, drawn, settle


class Fire(nn.Module):
    """SqueezeNet's module: few channels, and from them 1x1 and 3x3 side by side.

    Parameters
    ----------
    inputs, squeezed, expanded
        Channels before, between, and of each of the two halves after.
    """

    def __init__(self, inputs: int, squeezed: int, expanded: int) -> None:
        super().__init__()
        self.squeeze = nn.Conv2d(inputs, squeezed, 1)
        self.narrow = nn.Conv2d(squeezed, expanded, 1)
        self.wide = nn.Conv2d(squeezed, expanded, 3, padding=1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Map (n, inputs, h, w) to (n, 2 * expanded, h, w)."""
        few = torch.relu(self.squeeze(image))
        return torch.cat([torch.relu(self.narrow(few)), torch.relu(self.wide(few))], dim=1)


class Residual(nn.Module):
    """A path around which its input is added, where the shapes allow or a projection makes them.

    Parameters
    ----------
    path
        Maps (n, inputs, h, w) to what it is added to.
    around
        The projection; ``None`` for the input as it is.
    active
        Whether a ReLU follows the sum.
    """

    def __init__(self, path: nn.Module, around: nn.Module | None = None, *, active: bool) -> None:
        super().__init__()
        self.path, self.around, self.active = path, around, active

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """The sum, of the path's shape."""
        shortcut = image if self.around is None else self.around(image)
        total: torch.Tensor = self.path(image) + shortcut
        return torch.relu(total) if self.active else total


def _normed(
    inputs: int, outputs: int, kernel: int, *, stride: int = 1, groups: int = 1
) -> list[nn.Module]:
    convolution = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
    return [convolution, nn.BatchNorm2d(outputs)]


def _pooled(channels: int, classes: int) -> list[nn.Module]:
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes)]


def _alexnet(width: int, size: int, hidden: int, classes: int) -> Built:
    first, second, third = width, 3 * width, 6 * width
    features = [
        *(nn.Conv2d(3, first, 11, stride=4, padding=2), nn.ReLU(), nn.MaxPool2d(3, 2)),
        *(nn.Conv2d(first, second, 5, padding=2), nn.ReLU(), nn.MaxPool2d(3, 2)),
        *(nn.Conv2d(second, third, 3, padding=1), nn.ReLU()),
        *(nn.Conv2d(third, 4 * width, 3, padding=1), nn.ReLU()),
        *(nn.Conv2d(4 * width, 4 * width, 3, padding=1), nn.ReLU(), nn.AdaptiveMaxPool2d(6)),
    ]
    head = [
        *(nn.Flatten(), nn.Dropout(), nn.Linear(4 * width * 36, hidden), nn.ReLU()),
        *(nn.Dropout(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, classes)),
    ]
    return Built(drawn(nn.Sequential(*features, *head)), (torch.randn(1, 3, size, size),), {})


def _vgg(stages: Sequence[tuple[int, int]], size: int, hidden: int, classes: int) -> Built:
    layers: list[nn.Module] = []
    channels = 3
    for convolutions, width in stages:
        for _ in range(convolutions):
            layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU()]
            channels = width
        layers.append(nn.MaxPool2d(2))
    side = size // 2 ** len(stages)
    layers += [nn.Flatten(), nn.Linear(channels * side * side, hidden), nn.ReLU(), nn.Dropout()]
    layers += [nn.Linear(hidden, hidden), nn.ReLU(), nn.Dropout(), nn.Linear(hidden, classes)]
    return Built(drawn(nn.Sequential(*layers)), (torch.randn(1, 3, size, size),), {})


def _squeezenet(fires: Sequence[int | None], size: int, first: int, classes: int) -> Built:
    layers: list[nn.Module] = [nn.Conv2d(3, first, 3, stride=2), nn.ReLU()]
    channels = first
    for squeezed in fires:
        if squeezed is None:
            layers.append(nn.MaxPool2d(3, 2, ceil_mode=True))
        else:
            layers.append(Fire(channels, squeezed, 4 * squeezed))
            channels = 8 * squeezed
    layers += [nn.Dropout(), nn.Conv2d(channels, classes, 1), nn.ReLU()]
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return Built(drawn(nn.Sequential(*layers)), (torch.randn(1, 3, size, size),), {})


def _resnext_block(inputs: int, inner: int, outputs: int, stride: int, groups: int) -> Residual:
    path = [
        *(*_normed(inputs, inner, 1), nn.ReLU()),
        *(*_normed(inner, inner, 3, stride=stride, groups=groups), nn.ReLU()),
        *_normed(inner, outputs, 1),
    ]
    fits = inputs == outputs and stride == 1
    around = None if fits else nn.Sequential(*_normed(inputs, outputs, 1, stride=stride))
    return Residual(nn.Sequential(*path), around, active=True)


def _resnext(depths: Sequence[int], groups: int, width: int, size: int, classes: int) -> Built:
    channels = groups * width // 2
    layers: list[nn.Module] = [*_normed(3, channels, 7, stride=2), nn.ReLU()]
    layers.append(nn.MaxPool2d(3, 2, padding=1))
    for stage, depth in enumerate(depths):
        inner = groups * width * 2**stage
        for block in range(depth):
            stride = 2 if stage and not block else 1
            layers.append(_resnext_block(channels, inner, 2 * inner, stride, groups))
            channels = 2 * inner
    module = drawn(nn.Sequential(*layers, *_pooled(channels, classes)))
    return Built(
        settle(module, torch.randn(4, 3, size, size)), (torch.randn(1, 3, size, size),), {}
    )


def _inverted(inputs: int, outputs: int, kernel: int, stride: int, growth: int) -> nn.Module:
    inner = inputs * growth
    path = nn.Sequential(
        *(*_normed(inputs, inner, 1), nn.ReLU()),
        *(*_normed(inner, inner, kernel, stride=stride, groups=inner), nn.ReLU()),
        *_normed(inner, outputs, 1),
    )
    return Residual(path, active=False) if inputs == outputs and stride == 1 else path


_MNASNET = (
    (3, 24, 3, 2, 3),
    (3, 40, 5, 2, 3),
    (3, 80, 5, 2, 6),
    (2, 96, 3, 1, 6),
    (4, 192, 5, 2, 6),
    (1, 320, 3, 1, 6),
)
"""Of MNASNet-B1's stages: blocks, channels, kernel, stride, growth (arXiv:1807.11626)."""


def _mnasnet(
    stages: Sequence[tuple[int, int, int, int, int]], first: int, last: int, size: int, classes: int
) -> Built:
    layers: list[nn.Module] = [*_normed(3, first, 3, stride=2), nn.ReLU()]
    layers += [*_normed(first, first, 3, groups=first), nn.ReLU(), *_normed(first, first // 2, 1)]
    channels = first // 2
    for blocks, outputs, kernel, stride, growth in stages:
        for block in range(blocks):
            layers.append(_inverted(channels, outputs, kernel, 1 if block else stride, growth))
            channels = outputs
    layers += [*_normed(channels, last, 1), nn.ReLU(), *_pooled(last, classes)]
    module = drawn(nn.Sequential(*layers))
    return Built(
        settle(module, torch.randn(4, 3, size, size)), (torch.randn(1, 3, size, size),), {}
    )


MODELS = (
    Model(
        "AlexNet",
        "arXiv:1404.5997, one tower, at 224",
        lambda: _alexnet(64, 224, 4096, 1000),
        lambda: _alexnet(4, 64, 16, 5),
    ),
    Model(
        "VGG-16",
        "arXiv:1409.1556, configuration D, at 224",
        lambda: _vgg([(2, 64), (2, 128), (3, 256), (3, 512), (3, 512)], 224, 4096, 1000),
        lambda: _vgg([(1, 4), (2, 8)], 16, 16, 5),
    ),
    Model(
        "SqueezeNet",
        "arXiv:1602.07360, version 1.1, at 224",
        lambda: _squeezenet([None, 16, 16, None, 32, 32, None, 48, 48, 64, 64], 224, 64, 1000),
        lambda: _squeezenet([None, 2, None, 4], 32, 8, 5),
    ),
    Model(
        "ResNeXt-50",
        "arXiv:1611.05431, 32x4d, at 224",
        lambda: _resnext([3, 4, 6, 3], 32, 4, 224, 1000),
        lambda: _resnext([1, 2], 4, 2, 32, 5),
    ),
    Model(
        "MNASNet",
        "arXiv:1807.11626, B1, at 224",
        lambda: _mnasnet(_MNASNET, 32, 1280, 224, 1000),
        lambda: _mnasnet([(2, 6, 3, 2, 3), (1, 8, 5, 2, 3)], 8, 16, 32, 5),
    ),
)
