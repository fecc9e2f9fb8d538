"""Runs models of many kinds and writes, for every Linear that is called, the chain of modules around it, innermost first: as
(names in named_modules() of the model in whose call it was first seen, type). argv[1] is the file for that.

The chain is kept by torch's own global hooks. Each line: a thread's number, the chain.
"""

import copy
import gc
import json
import sys
import threading
import weakref

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

torch.set_num_threads(1)
WITNESS = open(sys.argv[1], "w", buffering=1)
STATE = threading.local()
NAMES = weakref.WeakKeyDictionary()


def type_name(module):
    return type(module).__module__ + "." + type(module).__qualname__


def before(module, _):
    STATE.chain = [module] + getattr(STATE, "chain", [])
    if module not in NAMES:
        NAMES[module] = [name for name, m in STATE.chain[-1].named_modules(remove_duplicate=False) if m is module]
    if isinstance(module, nn.Linear):
        chain = [(NAMES[m], type_name(m)) for m in STATE.chain]
        WITNESS.write(json.dumps([threading.get_native_id(), chain]) + "\n")


def after(*_):
    STATE.chain = STATE.chain[1:]


torch.nn.modules.module.register_module_forward_pre_hook(before)
torch.nn.modules.module.register_module_forward_hook(after, always_call=True)


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.second = nn.Linear(4, 4)
        self.nothing = None

    def forward(self, x):
        return x + self.second(torch.relu(self.first(x)))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(Residual(), nn.ReLU(), Residual())
        self.heads = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])
        self.shared = nn.Linear(4, 4)
        self.again = nn.ModuleDict({"same": self.shared})
        self.hidden = [nn.Linear(4, 4)]  # unknown to torch

    def forward(self, x):
        x = self.body(x)
        for head in self.heads:
            x = head(x)
        x = self.again["same"](self.shared(x))
        x = checkpoint(self.body[0], x, use_reentrant=True)
        x = checkpoint(self.body[2], x, use_reentrant=False)
        return self.hidden[0](x)


class Loss(nn.Module):
    def __init__(self):
        super().__init__()
        self.project = nn.Linear(4, 1)

    def forward(self, x):
        return self.project(x).sum()


class Grows(nn.Module):
    """Gets one more layer at each call."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList()

    def forward(self, x):
        self.layers.append(nn.Linear(4, 4))
        for layer in self.layers:
            x = layer(x)
        return x


def train(net, loss, steps):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for _ in range(steps):
        optimizer.zero_grad()
        loss(net(torch.ones(2, 4, requires_grad=True))).backward()
        optimizer.step()


def main():
    net, loss = Net(), Loss()
    train(net, loss, 3)
    twin = copy.deepcopy(net)  # half-way, the model is replaced
    del net
    gc.collect()
    train(twin, loss, 2)
    wrapped = nn.Sequential(nn.Linear(4, 4), Grows())
    for _ in range(6):
        wrapped(torch.ones(1, 4))
    for _ in range(30):  # short-lived models, often at the same address
        with torch.no_grad():
            Residual()(torch.ones(1, 4))
    twins = [Net() for _ in range(3)]
    threads = [threading.Thread(target=train, args=(each, Loss(), 6)) for each in twins]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert gc.isenabled()


main()
