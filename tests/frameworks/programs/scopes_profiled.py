"""Trains networks under torch.profiler and writes the profiler's events. scopes_profiled.py MODEL[,MODEL…] STEPS OUT [pause]

OUT is JSON: a list of [name, start_ns, duration_ns, thread, forward thread, sequence number, scope, end thread]. What was profiled of a
MODEL is in the range "witness MODEL". With `pause` the profiler runs a second time, with some steps without it in between.
"""

import json
import sys

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from torch_models import MODELS

names, steps, out = sys.argv[1].split(","), int(sys.argv[2]), sys.argv[3]
torch.set_num_threads(1)


def train(count):
    for _ in range(count):
        optimizer.zero_grad()
        model(*inputs).square().mean().backward()
        optimizer.step()


def profiled(label):
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        with record_function(label):
            train(steps)
    return profiler.profiler.kineto_results.events()


events = []
for name in names:
    torch.manual_seed(0)
    model, inputs = MODELS[name]()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    train(2)
    events += profiled(f"witness {name}")
    if "pause" in sys.argv:
        train(2)
        events += profiled(f"witness {name} again")
with open(out, "w", encoding="utf-8") as file:
    json.dump([(e.name(), e.start_ns(), e.duration_ns(), e.start_thread_id(), e.fwd_thread_id(), e.sequence_nr(), e.scope(),
                e.end_thread_id()) for e in events], file)
