"""More networks for tests of layers, in addition to torch_models.py's."""

import torch
from torch import nn

from torch_models import MODELS as SCOPE_MODELS


def vgg11():
    layers, channels_in = [], 3
    for channels in (16, "M", 32, "M", 64, 64, "M", 128, 128, "M", 128, 128, "M"):
        if channels == "M":
            layers.append(nn.MaxPool2d(2))
        else:
            layers += [nn.Conv2d(channels_in, channels, 3, padding=1), nn.ReLU(inplace=True)]
            channels_in = channels
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(128 * 4, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(),
                         nn.Linear(64, 10))


def nobias():
    """Layers with and without a bias, whose gradients autograd computes in opposite orders; two are square."""
    layers = []
    for size_in, size_out, bias in ((96, 160, False), (160, 64, False), (64, 64, False), (64, 64, True), (64, 48, True)):
        layers += [nn.Linear(size_in, size_out, bias=bias), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(48, 10, bias=False))


class Inception(nn.Module):
    """Four branches over one input, equal shapes among them, joined by a functional op."""

    def __init__(self):
        super().__init__()
        self.one = nn.Conv2d(8, 8, 1)
        self.three = nn.Sequential(nn.Conv2d(8, 8, 1), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1))
        self.five = nn.Sequential(nn.Conv2d(8, 8, 1), nn.ReLU(), nn.Conv2d(8, 8, 5, padding=2))
        self.pool = nn.Sequential(nn.MaxPool2d(3, 1, 1), nn.Conv2d(8, 8, 1))

    def forward(self, x):
        return torch.cat([self.one(x), self.three(x), self.five(x), self.pool(x)], 1)


def inception():
    return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), Inception(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))


class Siamese(nn.Module):
    """One part used twice in a forward pass, and a functional op on a line of its own after each use."""

    def __init__(self):
        super().__init__()
        self.shared, self.last = nn.Linear(16, 16), nn.Linear(16, 10)

    def forward(self, x):
        left = torch.tanh(self.shared(x))
        right = torch.tanh(self.shared(x))
        return self.last(left + right * 2)


MODELS = dict(SCOPE_MODELS,
              vgg11=lambda: (vgg11(), (torch.randn(2, 3, 64, 64),)),
              inception=lambda: (inception(), (torch.randn(2, 3, 16, 16),)),
              nobias=lambda: (nobias(), (torch.randn(200, 96),)),
              siamese=lambda: (Siamese(), (torch.randn(4, 16),)))
