"""Networks of various kinds for the table of layers, as (model, inputs): torchvision is not needed.

MODELS[name]() builds one; a model is called as model(*inputs) and returns one tensor.
"""

import torch
from torch import nn
from torch.utils import checkpoint


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 6, 5, padding=2), nn.Conv2d(6, 16, 5)
        self.pool = nn.MaxPool2d(2)
        self.fc1, self.fc2, self.fc3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10)

    def forward(self, x):
        x = self.pool(self.conv1(x).relu())
        x = self.pool(self.conv2(x).relu()).flatten(1)
        return self.fc3(self.fc2(self.fc1(x).relu()).relu())


def alexnet():
    return nn.Sequential(
        nn.Conv2d(3, 64, 11, stride=4, padding=2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2),
        nn.Conv2d(64, 192, 5, padding=2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2),
        nn.Conv2d(192, 384, 3, padding=1), nn.ReLU(inplace=True),
        nn.Conv2d(384, 256, 3, padding=1), nn.ReLU(inplace=True),
        nn.Conv2d(256, 256, 3, padding=1), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2), nn.Flatten(),
        nn.Dropout(), nn.Linear(256 * 36, 4096), nn.ReLU(inplace=True),
        nn.Dropout(), nn.Linear(4096, 4096), nn.ReLU(inplace=True), nn.Linear(4096, 1000))


class BasicBlock(nn.Module):
    def __init__(self, channels_in, channels, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = None
        if stride != 1 or channels_in != channels:
            self.downsample = nn.Sequential(nn.Conv2d(channels_in, channels, 1, stride, bias=False),
                                            nn.BatchNorm2d(channels))

    def forward(self, x):
        shortcut = x if self.downsample is None else self.downsample(x)
        return self.relu(self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x))))) + shortcut)


def resnet18():
    blocks, channels_in = [], 64
    for channels, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        blocks += [BasicBlock(channels_in, channels, stride), BasicBlock(channels, channels, 1)]
        channels_in = channels
    return nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True),
                         nn.MaxPool2d(3, 2, 1), *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


def grouped():
    """Grouped, depthwise, dilated and transposed convolutions."""
    return nn.Sequential(nn.Conv2d(8, 16, 3, groups=4), nn.ReLU(), nn.Conv2d(16, 16, 3, groups=16), nn.ReLU6(),
                         nn.Conv2d(16, 32, 1), nn.Conv2d(32, 16, 3, dilation=2), nn.ConvTranspose2d(16, 8, 2, stride=2),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10))


class LastOutput(nn.Module):
    """An LSTM's output at the last step, through a linear layer."""

    def __init__(self):
        super().__init__()
        self.lstm, self.linear = nn.LSTM(16, 32, num_layers=2, batch_first=True), nn.Linear(32, 10)

    def forward(self, x):
        return self.linear(self.lstm(x)[0][:, -1])


class Checkpointed(nn.Module):
    def __init__(self, use_reentrant):
        super().__init__()
        self.use_reentrant = use_reentrant
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.inner = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), nn.Tanh(), nn.Conv2d(8, 8, 3, padding=1))
        self.last = nn.Linear(8 * 64, 10)

    def forward(self, x):
        x = checkpoint.checkpoint(self.inner, self.first(x), use_reentrant=self.use_reentrant)
        return self.last(x.flatten(1))


def transformer():
    return nn.Sequential(nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True), nn.Linear(32, 10))


MODELS = {
    "lenet": lambda: (LeNet(), (torch.randn(16, 1, 28, 28),)),
    "alexnet": lambda: (alexnet(), (torch.randn(2, 3, 224, 224),)),
    "resnet18": lambda: (resnet18(), (torch.randn(2, 3, 64, 64),)),
    "grouped": lambda: (grouped(), (torch.randn(2, 8, 16, 16),)),
    "lstm": lambda: (LastOutput(), (torch.randn(4, 6, 16),)),
    "transformer": lambda: (transformer(), (torch.randn(2, 7, 32),)),
    "checkpoint": lambda: (Checkpointed(use_reentrant=False), (torch.randn(2, 3, 8, 8),)),
    "checkpoint_reentrant": lambda: (Checkpointed(use_reentrant=True), (torch.randn(2, 3, 8, 8),)),
}
