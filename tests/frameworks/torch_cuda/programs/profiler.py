"""A training with torch.profiler started and stopped in its middle, twice: steps 2 and 3, 6 and 7 of 9. Writes the
profiler's GPU events. profiler.py OUT.json"""

import json
import os
import sys
import time

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

torch.manual_seed(0)
model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 6 * 6, 5)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
told = []
ASKING = ("cuda_runtime", "cuda_driver")
DONE = ("kernel", "gpu_memcpy", "gpu_memset")


def step(number):
    x = torch.full((2, 3, 8, 8), float(number)).cuda()
    model(x).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    torch.cuda.synchronize()


def profiled(numbers):
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        for number in numbers:
            step(number)
    path = sys.argv[1] + ".trace"
    profiler.export_chrome_trace(path)
    with open(path, encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    os.unlink(path)
    launched = {event["args"]["correlation"]: event["name"] for event in events if event.get("cat") in ASKING}
    told.append([
        {"category": event["cat"], "name": event["name"], "us": event["dur"], "stream": event["args"].get("stream"),
         "bytes": event["args"].get("bytes"), "grid": event["args"].get("grid"),
         "launched_by": launched.get(event["args"]["correlation"])}
        for event in sorted(events, key=lambda event: event.get("ts", 0)) if event.get("cat") in DONE])


for first in (0, 4):
    step(first)
    step(first + 1)
    profiled((first + 2, first + 3))
step(8)
with open(sys.argv[1], "w", encoding="utf-8") as file:
    json.dump(told, file)
print("done", flush=True)
time.sleep(1)  # see README.md: the autograd thread
