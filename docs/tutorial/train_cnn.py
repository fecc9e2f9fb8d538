"""Trains a plain CNN for image classification on the CPU, on random images: what it learns does not matter here.

  train_cnn.py [--channels-last] [--steps N] [--threads N]

--channels-last is the fix of docs/tutorial/README.md: model and images in the memory format that the kernels around the
convolutions can work in, too.
"""

import argparse

import torch
from torch import nn


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.relu1 = nn.Conv2d(3, 32, 3, padding=1), nn.ReLU()
        self.conv2, self.relu2 = nn.Conv2d(32, 32, 3, padding=1), nn.ReLU()
        self.pool1 = nn.MaxPool2d(2)
        self.conv3, self.relu3 = nn.Conv2d(32, 64, 3, padding=1), nn.ReLU()
        self.conv4, self.relu4 = nn.Conv2d(64, 64, 3, padding=1), nn.ReLU()
        self.pool2 = nn.MaxPool2d(2)
        self.classifier = nn.Linear(64 * 16 * 16, 10)

    def forward(self, images):
        maps = self.relu2(self.conv2(self.relu1(self.conv1(images))))
        maps = self.relu4(self.conv4(self.relu3(self.conv3(self.pool1(maps)))))
        return self.classifier(self.pool2(maps).flatten(1))


def train(steps, channels_last):
    torch.manual_seed(0)
    model = Network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    if channels_last:
        model = model.to(memory_format=torch.channels_last)
    loss = None
    for _ in range(steps):
        images, labels = torch.randn(32, 3, 64, 64), torch.randint(10, (32,))
        if channels_last:
            images = images.to(memory_format=torch.channels_last)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
    return loss.item()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--channels-last", action="store_true")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--threads", type=int, default=1, help="one repeats best on a busy machine")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    print(f"loss {train(arguments.steps, arguments.channels_last):.3f}")


if __name__ == "__main__":
    main()
