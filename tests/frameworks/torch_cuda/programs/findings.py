"""A network on a GPU whose steps lose time for one reason, or do not. findings.py item|quiet STEPS"""

import sys
import time

import torch
from torch import nn

CAUSE, STEPS = sys.argv[1], int(sys.argv[2])
model = nn.Sequential(nn.Conv2d(8, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 3, padding=1)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
images = torch.randn(64, 8, 32, 32).cuda()
for _ in range(STEPS):
    optimizer.zero_grad(set_to_none=True)
    loss = model(images).square().mean()
    loss.backward()
    optimizer.step()
    if CAUSE == "item":
        print(loss.item())
        sum(range(20000))  # work on the value, while the GPU is idle
torch.cuda.synchronize()
time.sleep(0.5)  # PyTorch may abort at exit: the autograd thread
