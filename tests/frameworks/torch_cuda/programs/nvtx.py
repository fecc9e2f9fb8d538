"""NVTX ranges as PyTorch pushes them: manually, by range_start and by emit_nvtx around a training step. nvtx.py
[none]"""

import sys
import time

import torch
from torch import nn
from torch.cuda import nvtx

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).cuda()
x = torch.ones(2, 8).cuda()
if "none" in sys.argv:
    model(x)
else:
    print(nvtx.range_push("outer"))
    with nvtx.range("inner"):
        model(x)
    print(nvtx.range_pop())
    number = nvtx.range_start("started")
    model(x)
    nvtx.range_end(number)
    nvtx.mark("a mark")
    with torch.autograd.profiler.emit_nvtx():
        for _ in range(3):
            model(x).sum().backward()
torch.cuda.synchronize()
print("done", flush=True)
time.sleep(1)  # see README.md: the autograd thread
