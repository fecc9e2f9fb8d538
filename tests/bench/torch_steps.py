"""Trains a network whose mode changes every few steps: dlhook recording, not recording, or reading oneDNN's lines
without recording them. Needs torch; runs under `dlhook run` (figures_torch.py starts it) and prints its times as one
JSON object.

One process, because whole runs differ by 15 % for reasons unrelated to the effect.

Usage: torch_steps.py MODEL THREADS GROUPS BLOCK    MODEL: lenet or alexnet; each group is one block of BLOCK steps per
mode
"""

import ctypes
import gc
import json
import os
import random
import sys
import time

import torch
from torch import nn

MODES = ["off", "on", "log"]
WARM_UP = 30


def lenet(batch=60):
    """LeNet-5 as in examples/01_first_profile, on random images."""
    features = nn.Sequential(nn.Conv2d(1, 6, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2))
    classifier = nn.Sequential(nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10))
    return nn.Sequential(features, nn.Flatten(), classifier), torch.randn(batch, 1, 32, 32)


def small_lenet():
    """The same calls, scopes and operators in less time, so that additions are more visible."""
    return lenet(batch=4)


def alexnet():
    """AlexNet's layers and channels, for images of 3x63x63 so that a step takes a tenth of a second."""
    layers = [nn.Conv2d(3, 64, 11, 4, 2), nn.ReLU(), nn.MaxPool2d(3, 2), nn.Conv2d(64, 192, 5, padding=2), nn.ReLU(),
              nn.MaxPool2d(3, 2), nn.Conv2d(192, 384, 3, padding=1), nn.ReLU(), nn.Conv2d(384, 256, 3, padding=1), nn.ReLU(),
              nn.Conv2d(256, 256, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(1024, 1024),
              nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10)]
    return nn.Sequential(*layers), torch.randn(16, 3, 63, 63)


class Switch:
    """dlhook's control word in the memory that it shares with its drain (preload/format/session.h), and torch's own
    switch of oneDNN's log. Under dlhook the latter sets the higher of the user's level and dlhook's, which is 0 while
    it is stopped."""

    ENABLED, CONFIGURED = 320, 324  # offsets in SessionHeader; tests/preload/ring_test.cc holds them

    def __init__(self):
        start = self._mapping()
        if ctypes.string_at(start, 8) != b"DLHRRNG1":
            raise SystemExit("the ring's layout is not the one that this benchmark knows")
        self.enabled = ctypes.c_uint32.from_address(start + self.ENABLED)
        self.families = ctypes.c_uint32.from_address(start + self.CONFIGURED).value
        if self.families == 0 or self.enabled.value != self.families:
            raise SystemExit("the words that switch recording are not where this benchmark expects them")

    @staticmethod
    def _mapping():
        with open("/proc/self/maps") as maps:
            for line in maps:
                if "/dlhook-" in line and line.rstrip().endswith(".ring"):
                    return int(line.split("-")[0], 16)
        raise SystemExit("not under dlhook, or it has not recorded anything")

    def set(self, mode):
        self.enabled.value = 0 if mode == "off" else self.families
        torch._C._verbose.mkldnn_set_verbose(0)
        if mode == "log":  # lines are produced and swallowed, but nothing is recorded
            self.enabled.value = 0


class Training:
    def __init__(self, model, images):
        self.model, self.images = model, images
        self.labels = torch.randint(0, 10, (len(images),))
        self.optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
        self.loss = nn.CrossEntropyLoss()

    def step(self):
        self.optimizer.zero_grad()
        self.loss(self.model(self.images), self.labels).backward()
        self.optimizer.step()


def launcher_cpu_ns():
    """CPU time of the draining process, its main thread."""
    with open(f"/proc/{os.getppid()}/schedstat") as file:
        return int(file.read().split()[0])


def launcher_share(work):
    """CPU time of the launcher as a part of the duration of `work`."""
    before, start = launcher_cpu_ns(), time.monotonic_ns()
    work()
    return (launcher_cpu_ns() - before) / (time.monotonic_ns() - start)


def timed_block(training, steps):
    """(wall, CPU of this process, start, end) in ns."""
    cpu, start = time.process_time_ns(), time.monotonic_ns()
    for _ in range(steps):
        training.step()
    end = time.monotonic_ns()
    return end - start, time.process_time_ns() - cpu, start, end


def main():
    model_name, threads, groups, block = sys.argv[1], *map(int, sys.argv[2:5])
    torch.manual_seed(1)
    torch.set_num_threads(threads)
    training = Training(*{"lenet": lenet, "alexnet": alexnet}[model_name]())
    for _ in range(WARM_UP):
        training.step()
    switch = Switch()
    blocks = []
    gc.collect()
    gc.disable()
    for group in range(groups):
        for mode in random.sample(MODES, len(MODES)):
            switch.set(mode)
            training.step()  # to fill the new mode's caches
            blocks.append((group, mode, *timed_block(training, block)))
        if group % 50 == 49:
            gc.collect()
    # The launcher works later than the step that caused it, so its part is taken from recording without pauses.
    switch.set("on")
    shares = [launcher_share(lambda: [training.step() for _ in range(20)]) for _ in range(groups // 20 + 6)]
    switch.set("off")
    time.sleep(0.3)  # the drain takes the rest
    idle_shares = [launcher_share(lambda: time.sleep(0.2)) for _ in range(6)]
    print(json.dumps({"blocks": blocks, "launcher_shares": shares, "idle_launcher_shares": idle_shares}))


if __name__ == "__main__":
    main()
