"""A network on a GPU whose steps lose time for one reason, or do not. findings.py CAUSE STEPS

CAUSE: quiet: none; item: a value is read; small-copies: 40 values are copied one by one; large-copies: 10 tensors of
64 KiB and a little more; copied-again: a table of 4 MiB that does not change; copied-new: one that does; empty-cache:
freed GPU memory is given back; empty-once: in the first step only.
"""

import sys
import time

import torch
from torch import nn

CAUSE, STEPS = sys.argv[1], int(sys.argv[2])
model = nn.Sequential(nn.Conv2d(8, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 3, padding=1)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
images = torch.randn(64, 8, 32, 32).cuda()
SIZES = {"small-copies": [1] * 40, "large-copies": [16400] * 10, "copied-again": [1 << 20], "copied-new": [1 << 20]}
values = [torch.randn(size) for size in SIZES.get(CAUSE, [])]  # copied in each step
if len(values) > 1:
    values = [value.pin_memory() for value in values]  # no copy is waited for: then a busy machine matters less
GIVES_BACK = {"empty-cache": range(STEPS), "empty-once": range(1)}.get(CAUSE, [])  # in these steps
for step in range(STEPS):
    if CAUSE == "copied-new":
        values[0].add_(1)
    copied = [value.cuda(non_blocking=value.is_pinned()) for value in values]
    optimizer.zero_grad(set_to_none=True)
    loss = model(images).square().mean()
    loss.backward()
    optimizer.step()
    if CAUSE == "item":
        print(loss.item())
        sum(range(20000))  # work on the value, while the GPU is idle
    if step in GIVES_BACK:
        large = [torch.empty(8 << 20, device="cuda") for _ in range(64)]
        del large
        torch.cuda.empty_cache()
    if values:
        torch.cuda.synchronize()
torch.cuda.synchronize()
time.sleep(0.5)  # PyTorch may abort at exit: the autograd thread
