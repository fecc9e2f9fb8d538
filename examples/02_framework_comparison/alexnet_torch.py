"""Trains AlexNet (one column, 227x227 images) on random images with PyTorch. Unaware of dlhook.

Usage: alexnet_torch.py [--steps N] [--batch N]
"""

import argparse

import torch
from torch import nn


class AlexNet(nn.Module):
    def __init__(self, classes=1000):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 11, stride=4)
        self.relu1 = nn.ReLU()
        self.pool1 = nn.MaxPool2d(3, 2)
        self.conv2 = nn.Conv2d(64, 192, 5, padding=2)
        self.relu2 = nn.ReLU()
        self.pool2 = nn.MaxPool2d(3, 2)
        self.conv3 = nn.Conv2d(192, 384, 3, padding=1)
        self.relu3 = nn.ReLU()
        self.conv4 = nn.Conv2d(384, 256, 3, padding=1)
        self.relu4 = nn.ReLU()
        self.conv5 = nn.Conv2d(256, 256, 3, padding=1)
        self.relu5 = nn.ReLU()
        self.pool5 = nn.MaxPool2d(3, 2)
        self.fc1 = nn.Linear(256 * 6 * 6, 4096)
        self.relu6 = nn.ReLU()
        self.fc2 = nn.Linear(4096, 4096)
        self.relu7 = nn.ReLU()
        self.fc3 = nn.Linear(4096, classes)

    def forward(self, images):
        x = self.pool1(self.relu1(self.conv1(images)))
        x = self.pool2(self.relu2(self.conv2(x)))
        x = self.relu4(self.conv4(self.relu3(self.conv3(x))))
        x = self.pool5(self.relu5(self.conv5(x))).flatten(1)
        x = self.relu6(self.fc1(x))
        return self.fc3(self.relu7(self.fc2(x)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--batch", type=int, default=8)
    options = parser.parse_args()

    torch.manual_seed(1)
    model = AlexNet()
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    images = torch.randn(options.batch, 3, 227, 227)
    labels = torch.arange(options.batch) % 1000
    for _ in range(options.steps):
        optimizer.zero_grad()
        loss = criterion(model(images), labels)
        loss.backward()
        optimizer.step()
    print(f"PyTorch {torch.__version__}: loss {loss.item():.3f} after {options.steps} steps of {options.batch} images")


if __name__ == "__main__":
    main()
