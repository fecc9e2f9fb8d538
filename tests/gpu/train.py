"""Trains AlexNet or ResNet-18 for a few steps on the GPU, on random images: what run.py records and profiles.

    train.py NETWORK [--steps N] [--batch N] [--channels-last] [--amp] [--benchmark] [--profile FILE [--cpu-only]]

NETWORK: alexnet resnet18. Images come from pinned memory, labels from pageable. --profile: torch.profiler around
everything that uses the GPU, as a Chrome trace. --cpu-only: without the GPU's own activities (operators and their
shapes remain).
"""

import argparse
import contextlib
import time

import torch
from torch import nn
from torch.nn import functional as F

CLASSES = 100
SIDE = 224


class AlexNet(nn.Sequential):
    """The one-column form of 2014."""

    def __init__(self):
        super().__init__(
            nn.Conv2d(3, 64, 11, stride=4, padding=2), nn.ReLU(), nn.MaxPool2d(3, 2),
            nn.Conv2d(64, 192, 5, padding=2), nn.ReLU(), nn.MaxPool2d(3, 2),
            nn.Conv2d(192, 384, 3, padding=1), nn.ReLU(), nn.Conv2d(384, 256, 3, padding=1), nn.ReLU(),
            nn.Conv2d(256, 256, 3, padding=1), nn.ReLU(), nn.MaxPool2d(3, 2), nn.Flatten(),
            nn.Linear(9216, 1024), nn.ReLU(), nn.Linear(1024, 512), nn.ReLU(), nn.Linear(512, CLASSES),
        )  # fmt: skip


class Block(nn.Module):
    """Two 3x3 convolutions beside a shortcut."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.first_norm = nn.BatchNorm2d(outputs)
        self.second = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.second_norm = nn.BatchNorm2d(outputs)
        self.shortcut = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = F.relu(self.first_norm(self.first(x)))
        return F.relu(self.second_norm(self.second(y)) + self.shortcut(x))


class ResNet18(nn.Sequential):
    def __init__(self):
        blocks = []
        inputs = 64
        for outputs, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
            blocks += [Block(inputs, outputs, stride), Block(outputs, outputs, 1)]
            inputs = outputs
        super().__init__(
            nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1), *blocks,
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, CLASSES),
        )  # fmt: skip


NETWORKS = {"alexnet": AlexNet, "resnet18": ResNet18}


def train(options):
    torch.manual_seed(1)
    torch.backends.cudnn.benchmark = options.benchmark
    layout = torch.channels_last if options.channels_last else torch.contiguous_format
    model = NETWORKS[options.network]().cuda().to(memory_format=layout)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    scaler = torch.amp.GradScaler("cuda", enabled=options.amp)
    for _ in range(options.steps):
        images = torch.randn(options.batch, 3, SIDE, SIDE).pin_memory().cuda(non_blocking=True)
        labels = torch.randint(0, CLASSES, (options.batch,)).cuda()
        optimizer.zero_grad()
        with torch.autocast("cuda", torch.float16, enabled=options.amp):
            loss = F.cross_entropy(model(images.to(memory_format=layout)), labels)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        loss.item()
    torch.cuda.synchronize()


@contextlib.contextmanager
def profiled(path, cpu_only):
    if path is None:
        yield
        return
    from torch.profiler import ProfilerActivity, profile

    activities = [ProfilerActivity.CPU] + ([] if cpu_only else [ProfilerActivity.CUDA])
    with profile(activities=activities, record_shapes=True) as profiler:
        yield
    profiler.export_chrome_trace(path)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("network", choices=NETWORKS)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--channels-last", action="store_true")
    parser.add_argument("--amp", action="store_true")
    parser.add_argument("--benchmark", action="store_true")
    parser.add_argument("--profile", metavar="FILE")
    parser.add_argument("--cpu-only", action="store_true")
    return parser.parse_args()


def main():
    options = parse()
    with profiled(options.profile, options.cpu_only):
        train(options)
    print(f"{options.network}: {options.steps} steps")
    # The autograd thread of the wheel sometimes aborts at interpreter exit if it has just been used.
    time.sleep(0.5)


if __name__ == "__main__":
    main()
