"""Trains two networks alike under torch.compile, in turns: Fused as it is by default, Alone with a loop for each operation of the graph,
so that each of its loops is of one module. Prints the last losses, and with a clock of its own around each of the compiler's loops
what their calls took, by the loop's name in order, in ns."""

import json
import re
import time
import unittest.mock

import torch
from torch import nn
from torch._inductor.codegen.cpp import CppScheduling


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 16, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(16)
        self.act = nn.ReLU()
        self.head = nn.Linear(16, 10)

    def forward(self, x):
        return self.head(self.act(self.norm(self.conv(x))).mean((2, 3)))


class Fused(Net):
    pass


class Alone(Net):
    def forward(self, x):  # another function, or its graphs would be versions of the other's
        return self.head(self.act(self.norm(self.conv(x))).mean((2, 3)))


ALONE = {"max_fusion_size": 1, "realize_opcount_threshold": 0, "realize_reads_threshold": 0, "realize_acc_reads_threshold": 0}
clocked = {}


def clock(loop, times):
    def call(*arguments):
        start = time.perf_counter_ns()
        loop(*arguments)
        times.append(time.perf_counter_ns() - start)
    return call


def clock_loops():
    """The code that inductor generated calls its loops by their names."""
    for module in torch._inductor.codecache.PyCodeCache.modules:
        with open(module.__file__, encoding="utf-8") as file:
            named = re.findall(r'record_\w+\("(graph_\d+_(\w+))"', file.read())
        for scope, loop in named:
            setattr(module, loop, clock(getattr(module, loop), clocked.setdefault(scope, [])))


def step(net, compiled, optimizer, x, y):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(compiled(x), y)
    loss.backward()
    optimizer.step()
    return loss.item()


torch.set_num_threads(1)
x, y = torch.randn(16, 3, 64, 64), torch.randint(0, 10, (16,))
programs = []
for kind, settings in ((Fused, {}), (Alone, ALONE)):
    torch.manual_seed(0)
    net = kind()
    programs.append((net, torch.compile(net), torch.optim.SGD(net.parameters(), lr=0.01), x, y))
    # Beyond so many arguments the next loop is a kernel of its own.
    most = CppScheduling.MAX_FUSED_KERNEL_ARGS_NUM if kind is Fused else 0
    with torch._inductor.config.patch(settings), unittest.mock.patch.object(CppScheduling, "MAX_FUSED_KERNEL_ARGS_NUM", most):
        step(*programs[-1])
clock_loops()
losses = [[step(*program) for program in programs] for _ in range(30)]
print(json.dumps({"losses": losses[-1], "clocked": clocked}))
