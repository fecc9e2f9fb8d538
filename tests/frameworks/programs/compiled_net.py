"""Trains a network under torch.compile that computes a part again in the backward pass, breaks a graph inside of a module, and whose
rest is compiled again. Only products and views: then inductor has no code for the C++ compiler. Prints as JSON what PyTorch counted."""

import json

import torch
from torch.utils import checkpoint


class Part(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.wide = torch.nn.Linear(64, 256, bias=False)
        self.narrow = torch.nn.ModuleList([torch.nn.Linear(256, 32, bias=False)])

    def forward(self, x, turned):
        y = self.wide(x)
        torch._dynamo.graph_break()
        z = self.narrow[0](y)
        return z.t() if turned else z


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(64, 64, bias=False)
        self.again = torch.nn.Sequential(torch.nn.Linear(64, 64, bias=False), torch.nn.Linear(64, 64, bias=False))
        self.part = Part()

    def forward(self, x, turned):
        return self.part(checkpoint.checkpoint(self.again, self.first(x), use_reentrant=False), turned)


torch.manual_seed(1)
net = Net()
compiled = torch.compile(net)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for step in range(40):
    optimizer.zero_grad()
    compiled(torch.randn(128, 64), step >= 20).square().mean().backward()
    optimizer.step()
with torch.no_grad():
    compiled(torch.randn(128, 64), False)
x = torch.randn(128, 64)
torch._inductor.compile(torch.fx.symbolic_trace(torch.nn.Sequential(net.first)), [x])(x)  # a compilation without Dynamo

counters = torch._dynamo.utils.counters
regions = [of.compile_id for of in torch._dynamo.utils.get_compilation_metrics() if of.is_forward and of.compile_id]
print(json.dumps({"graphs": counters["stats"]["unique_graphs"], "breaks": sum(counters["graph_break"].values()), "regions": regions}))
