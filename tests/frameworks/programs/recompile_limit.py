"""Trains by a function that is compiled for each mode; PyTorch's limit allows two, which run once."""

import torch

torch._dynamo.config.recompile_limit = 2
net = torch.nn.Linear(512, 512)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)


@torch.compile(backend="eager")
def scaled(x, mode):
    return net(x) * len(mode)


for step in range(40):
    optimizer.zero_grad()
    scaled(torch.ones(64, 512), "a" * (1 + step if step < 2 else 3 + step % 2)).square().mean().backward()
    optimizer.step()
