"""Trains AlexNet or ResNet-18 for a few steps on the GPU, on random images: what run.py records and profiles.

    train.py NETWORK [--steps N] [--batch N] [--channels-last] [--amp] [--benchmark] [--graph] [--times FILE]
             [--profile FILE [--profile-steps FIRST:END] [--cpu-only]]

NETWORK: alexnet resnet18. Images come from pinned memory, labels from pageable. --graph: forward, backward and update
are captured into a CUDA graph after three steps, and the others replay it. --times: the wall time of each step in
seconds, a line each. --profile: torch.profiler around everything that uses the GPU, as a Chrome trace; --profile-steps:
around steps FIRST to END - 1 alone. --cpu-only: without the GPU's own activities (operators and their shapes remain).
"""

import argparse
import contextlib
import time

import torch
from torch import nn
from torch.nn import functional as F

CLASSES = 100
SIDE = 224
WARM_UP_STEPS = 3


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
    """Two 3x3 convolutions and a shortcut."""

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


class Trainer:
    """One step on random images at a time; with --graph replayed from the fourth one on."""

    def __init__(self, options):
        torch.manual_seed(1)
        torch.backends.cudnn.benchmark = options.benchmark
        self.options = options
        self.layout = torch.channels_last if options.channels_last else torch.contiguous_format
        self.model = NETWORKS[options.network]().cuda().to(memory_format=self.layout)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9)
        self.scaler = torch.amp.GradScaler("cuda", enabled=options.amp)
        self.graph = None
        self.steps = 0

    def step(self):
        options = self.options
        images = torch.randn(options.batch, 3, SIDE, SIDE).pin_memory()
        labels = torch.randint(0, CLASSES, (options.batch,))
        self.steps += 1
        if not options.graph:
            self.compute(images.cuda(non_blocking=True), labels.cuda()).item()
        elif self.steps <= WARM_UP_STEPS:
            self.warm_up(images, labels)
        else:
            self.replay(images, labels)

    def compute(self, images, labels):
        self.optimizer.zero_grad()
        with torch.autocast("cuda", torch.float16, enabled=self.options.amp):
            loss = F.cross_entropy(self.model(images.to(memory_format=self.layout)), labels)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return loss

    def warm_up(self, images, labels):
        """On a non-default stream, as required by PyTorch's documentation of CUDA graphs."""
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            self.compute(images.cuda(non_blocking=True), labels.cuda())
        torch.cuda.current_stream().wait_stream(stream)

    def replay(self, images, labels):
        if self.graph is None:
            self.images, self.labels = images.cuda(), labels.cuda()
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.loss = self.compute(self.images, self.labels)
        self.images.copy_(images, non_blocking=True)
        self.labels.copy_(labels)
        self.graph.replay()
        self.loss.item()


def train(options, profiles):
    """`profiles`: {step: a context entered before it}; returns the times of the steps."""
    trainer = Trainer(options)
    times = []
    with contextlib.ExitStack() as open_profile:
        for step in range(options.steps):
            if step in profiles:
                open_profile.enter_context(profiles[step])
            start = time.perf_counter()
            trainer.step()
            torch.cuda.synchronize()
            times.append(time.perf_counter() - start)
            if step + 1 == options.profile_end:
                open_profile.close()
    return times


@contextlib.contextmanager
def profiled(path, cpu_only):
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
    parser.add_argument("--graph", action="store_true")
    parser.add_argument("--times", metavar="FILE")
    parser.add_argument("--profile", metavar="FILE")
    parser.add_argument("--profile-steps", metavar="FIRST:END")
    parser.add_argument("--cpu-only", action="store_true")
    options = parser.parse_args()
    first, end = map(int, (options.profile_steps or f"0:{options.steps}").split(":"))
    options.profile_first, options.profile_end = first, end
    return options


def main():
    options = parse()
    profile = profiled(options.profile, options.cpu_only) if options.profile else None
    times = []
    if options.profile and options.profile_steps is None:  # creating the model uses the GPU, too
        with profile:
            times = train(options, {})
    else:
        times = train(options, {options.profile_first: profile} if profile else {})
    if options.times:
        with open(options.times, "w", encoding="utf-8") as file:
            file.writelines(f"{seconds:.9f}\n" for seconds in times)
    print(f"{options.network}: {options.steps} steps")
    # The autograd thread of the wheel sometimes aborts at interpreter exit if it has just been used.
    time.sleep(0.5)


if __name__ == "__main__":
    main()
