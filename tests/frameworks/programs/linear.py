"""A linear layer, forward and backward. linear.py STEPS: batch 32, 48 inputs, 24 outputs."""

import sys

import torch

torch.set_num_threads(1)
layer = torch.nn.Linear(48, 24)
for _step in range(int(sys.argv[1])):
    inputs = torch.ones(32, 48, requires_grad=True)
    layer(inputs).sum().backward()
with torch.no_grad():
    layer(torch.ones(5, 48))
    torch.ones(6, 7, dtype=torch.float64) @ torch.ones(7, 8, dtype=torch.float64)
print("done")
