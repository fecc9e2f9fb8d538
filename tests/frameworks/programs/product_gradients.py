"""Every way in which PyTorch multiplies matrices in a network, alone: product_gradients.py STEPS

Prints, as JSON, the address of each module's weights.
"""

import json
import sys

import torch
from torch import nn
from torch.nn import functional

ROWS, SQUARE = 48, 32


class Own(nn.Module):
    """A parameter and a function of it and the input."""

    def __init__(self, function, *shape, bias=None):
        super().__init__()
        self.function = function
        self.weight = nn.Parameter(torch.randn(*shape))
        if bias:
            self.bias = nn.Parameter(torch.randn(bias))

    def forward(self, x):
        return self.function(self, x)


def frozen(module):
    module.weight.requires_grad_(False)
    return module


def cases():
    """name -> module, shape of its input, whether the input needs a gradient."""
    made = {}
    for name, out in (("square", SQUARE), ("wide", 80), ("one", 1)):
        for bias in (False, True):
            word = f"{name}_{'bias' if bias else 'nobias'}"
            made[word] = nn.Linear(SQUARE, out, bias=bias), (SQUARE if name == "square" else ROWS, SQUARE), True
            made[word + "_3d"] = nn.Linear(SQUARE, out, bias=bias), (4, 8 if name == "square" else 12, SQUARE), True
            made[word + "_first"] = nn.Linear(SQUARE, out, bias=bias), (SQUARE, SQUARE), False
            made[word + "_frozen"] = frozen(nn.Linear(SQUARE, out, bias=bias)), (SQUARE, SQUARE), True
    for k in (SQUARE, 24):
        made[f"matmul_{k}"] = Own(lambda m, x: x @ m.weight, k, SQUARE), (SQUARE, k), True
        made[f"weights_first_{k}"] = Own(lambda m, x: m.weight @ x, SQUARE, k), (k, SQUARE), True
        made[f"folded_{k}"] = Own(lambda m, x: x @ m.weight, k, SQUARE), (4, 8, k), True
        made[f"einsum_{k}"] = Own(lambda m, x: torch.einsum("btd,df->btf", x, m.weight), k, SQUARE), (4, 8, k), True
        made[f"experts_{k}"] = Own(lambda m, x: torch.bmm(x, m.weight), 4, k, SQUARE), (4, SQUARE, k), True
        made[f"addmm_{k}"] = Own(lambda m, x: torch.addmm(m.bias, x, m.weight), k, SQUARE, bias=SQUARE), (SQUARE, k), True
    made["scores"] = Own(lambda m, x: torch.bmm(x * m.weight, (x + 1).transpose(1, 2)), SQUARE), (4, SQUARE, SQUARE), True
    return made


class Network(nn.ModuleDict):
    def forward(self, inputs):
        return sum(functional.relu(module(inputs[name])).square().mean() for name, module in self.items())


def main():
    torch.manual_seed(1)
    torch.set_num_threads(1)
    made = cases()
    network = Network({name: module for name, (module, _, _) in made.items()})
    optimizer = torch.optim.SGD([p for p in network.parameters() if p.requires_grad], lr=1e-3)
    keep = []
    for _ in range(int(sys.argv[1])):
        inputs = {}
        for name, (_, shape, needs_gradient) in made.items():
            x = torch.randn(*shape)
            inputs[name] = x.requires_grad_() * 1 if needs_gradient else x
        keep.append(inputs)  # the next ones are elsewhere
        network(inputs).backward()
        optimizer.step()
        optimizer.zero_grad()
    print(json.dumps({name: module.weight.data_ptr() for name, (module, _, _) in made.items()}))


main()
