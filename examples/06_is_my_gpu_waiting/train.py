"""Trains a small CNN on a GPU, on random images in the host's memory. Unaware of dlhook.

Usage: train.py [--input pageable|ahead] [--steps N] [--batch N]

pageable: each batch is copied from ordinary memory when it is needed. ahead: from pinned memory, on a separate
stream, while the GPU still computes the previous batch.
"""

import argparse
import time

import torch
from torch import nn
from torch.nn import functional as F

SIDE = 64
CLASSES = 10


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 32, 3, padding=1)
        self.conv2 = nn.Conv2d(32, 64, 3, padding=1)
        self.conv3 = nn.Conv2d(64, 64, 3, padding=1)
        self.head = nn.Linear(64 * 8 * 8, CLASSES)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = F.max_pool2d(F.relu(self.conv3(x)), 2)
        return self.head(x.flatten(1))


class Pageable:
    """Copies a batch on demand; the program and the GPU's computation wait for the copy."""

    def __init__(self, batches):
        self.batches = batches

    def __iter__(self):
        for images, labels in self.batches:
            yield images.cuda(), labels.cuda()


class Ahead:
    """Copies the next batch during the computation of this one."""

    def __init__(self, batches):
        self.batches = [(images.pin_memory(), labels.pin_memory()) for images, labels in batches]
        self.stream = torch.cuda.Stream()

    def copied(self, batch):
        with torch.cuda.stream(self.stream):
            return [tensor.cuda(non_blocking=True) for tensor in batch]

    def __iter__(self):
        following = self.copied(self.batches[0])
        for i in range(len(self.batches)):
            torch.cuda.current_stream().wait_stream(self.stream)
            current = following
            for tensor in current:
                tensor.record_stream(torch.cuda.current_stream())
            if i + 1 < len(self.batches):
                following = self.copied(self.batches[i + 1])
            yield current


def train(loader):
    model = Net().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for images, labels in loader:
        optimizer.zero_grad()
        F.cross_entropy(model(images), labels).backward()
        optimizer.step()
    torch.cuda.synchronize()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--input", choices=("pageable", "ahead"), default="pageable")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch", type=int, default=256)
    options = parser.parse_args()
    torch.manual_seed(1)
    batches = [(torch.randn(options.batch, 3, SIDE, SIDE), torch.randint(0, CLASSES, (options.batch,))) for _ in range(2)]
    loader = {"pageable": Pageable, "ahead": Ahead}[options.input]([batches[i % 2] for i in range(options.steps)])
    start = time.perf_counter()
    train(loader)
    print(f"{options.steps} steps of {options.batch} images in {time.perf_counter() - start:.3f} s")


if __name__ == "__main__":
    main()
