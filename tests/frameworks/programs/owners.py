"""Trains a network of which one module burns 5 ms of Python in each step, before its own layer. Prints the thread's CPU time
in the module without that layer, by a clock in forward hooks."""

import random
import time

import torch
from torch import nn

torch.set_num_threads(1)
STARTED = {}
SPENT = {}


class Slow(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x):
        end = time.thread_time() + random.uniform(0.004, 0.006)  # a fixed period would keep step with the kernel's ticks
        while time.thread_time() < end:
            sum(range(50))
        return self.linear(x)


def before(module, _):
    STARTED[module] = time.thread_time()


def after(module, *_):
    SPENT[module] = SPENT.get(module, 0) + time.thread_time() - STARTED[module]


net = nn.Sequential(nn.Linear(8, 8), Slow(), nn.Linear(8, 8))
for module in (net[1], net[1].linear):
    module.register_forward_pre_hook(before)
    module.register_forward_hook(after)
stop = time.thread_time() + 4
while time.thread_time() < stop:
    net(torch.randn(4, 8)).sum().backward()
print(SPENT[net[1]] - SPENT[net[1].linear])
