"""Trains a network under DistributedDataParallel, of one process, and torch.compile, which splits its graph by the buckets of gradients.
Only products: then inductor has no code for the C++ compiler. Prints how many parts that made."""

import sys

import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(512, 512, bias=False)
        self.middle = torch.nn.ModuleList([torch.nn.Linear(512, 512, bias=False) for _ in range(2)])
        self.last = torch.nn.Linear(512, 512, bias=False)

    def forward(self, x):
        x = self.first(x)
        for layer in self.middle:
            x = layer(x)
        return self.last(x)


distributed.init_process_group("gloo", init_method="file://" + sys.argv[1], rank=0, world_size=1)
net = Net()
compiled = torch.compile(DistributedDataParallel(net, bucket_cap_mb=1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for _ in range(20):
    optimizer.zero_grad()
    compiled(torch.randn(64, 512)).square().mean().backward()
    optimizer.step()
distributed.destroy_process_group()
print(sum(broken.reason.startswith("DDPOptimizer") for broken in torch._dynamo.utils.graph_break_reasons))
