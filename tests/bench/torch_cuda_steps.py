"""Trains LeNet on the GPU, which may be the fake one of tests/fakes, under dlhook, alternately recording and stopped;
prints the CPU times of a step, all threads of the process, as one JSON object. figures_torch_cuda.py starts it.

One process, because whole runs differ by more than the effect (torch_steps.py).

Usage: torch_cuda_steps.py GROUPS BLOCK    each group is one block of BLOCK steps per mode, in random order
"""

import json
import random
import sys
import time

import torch
from torch import nn
from torch_steps import Switch

WARM_UP = 20


def lenet():
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10),
    )  # fmt: skip


def main():
    groups, block = map(int, sys.argv[1:3])
    torch.manual_seed(1)
    torch.set_num_threads(1)
    model = lenet().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    images, labels = torch.randn(16, 1, 28, 28), torch.randint(0, 10, (16,))

    def step():
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
        loss.backward()
        optimizer.step()
        loss.item()

    for _ in range(WARM_UP):
        step()
    switch = Switch()
    times = {"on": [], "off": []}
    for _ in range(groups):
        for mode in random.sample(["on", "off"], 2):
            switch.set(mode)
            step()  # to fill the new mode's caches
            before = time.process_time_ns()
            for _ in range(block):
                step()
            times[mode].append((time.process_time_ns() - before) / block)
    switch.set("on")
    print(json.dumps({**times, "recorded_steps": WARM_UP + groups * (block + 1)}), flush=True)
    # The autograd thread of the wheel sometimes aborts at interpreter exit if it has just been used.
    time.sleep(0.5)


if __name__ == "__main__":
    main()
