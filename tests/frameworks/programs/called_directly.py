"""Networks that are not called as their names would have it: `forward` itself, by a module that does not have the network yet;
and by a module that keeps it in a plain list. called_directly.py forward|list"""
import sys

import torch
from torch import nn

REQUESTS = 20


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(32, 32) for _ in range(12))

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x))
        return x


class Steps:  # no module, though the first base of one
    pass


class Program(Steps, nn.Module):
    def __init__(self):
        super().__init__()
        net = Net().eval()
        for _ in range(REQUESTS):
            filtered = torch.ones(80, 201) @ torch.ones(201, 32)  # no rows of the network
            net.forward(filtered[:4])
        self.net = net


class Wrapper(nn.Module):
    def __init__(self, *nets):
        super().__init__()
        self.own = nets[1].layers[0]
        self.nets = [*nets, nn.Sequential(self.own)]  # not among its modules, but for this layer

    def forward(self, x):
        for net in self.nets:
            x = net(x)
        return x


with torch.inference_mode():
    if sys.argv[1] == "forward":
        Program()
    else:
        wrapper = Wrapper(nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 32)), Net(), Net()).eval()
        for _ in range(REQUESTS):
            wrapper(torch.ones(4, 32))
