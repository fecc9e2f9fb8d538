"""LeNet on PyTorch of any release, including 1.x. lenet_witness.py STEPS [EVENTS.json]

Prints its modules' names in the order of the calls. With a second argument torch.profiler records one more step and its
events are written to the file: [name, scope, sequence number] of all that began inside its range "witness", including
that range.
"""

import json
import sys

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from torch_models import MODELS

torch.set_num_threads(1)
torch.manual_seed(0)
model, inputs = MODELS["lenet"]()
criterion = torch.nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
target = torch.randint(0, 10, inputs[0].shape[:1])


def step():
    optimizer.zero_grad()
    criterion(model(*inputs), target).backward()
    optimizer.step()


for _ in range(int(sys.argv[1])):
    step()
if len(sys.argv) > 2:
    with profile(activities=[ProfilerActivity.CPU]) as profiler, record_function("witness"):
        step()
    events = [(event.name(), event.scope(), event.sequence_nr()) for event in profiler.profiler.kineto_results.events()]
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        json.dump(events[[name for name, *_ in events].index("witness"):], file)
called = []
for name, module in model.named_modules():
    module.register_forward_hook(lambda *_, name=name: called.append(name))
model(*inputs)
print(len(inputs[0]), *dict.fromkeys(name for name in called if name))
