"""Trains a small image classifier and records three steps with torch.profiler. It knows nothing of dlhook.

    train.py TRACE [--fused]     TRACE: where to write it (.json.gz); --fused: the optimizer in one operation"""

import sys

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, schedule

torch.manual_seed(0)
torch.set_num_threads(1)


class Block(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.norm = nn.BatchNorm2d(outputs)
        self.pool = nn.MaxPool2d(2)

    def forward(self, x):
        return self.pool(torch.relu(self.norm(self.conv(x))))


model = nn.Sequential(Block(3, 32), Block(32, 64), nn.Flatten(), nn.Linear(64 * 8 * 8, 256), nn.ReLU(), nn.Linear(256, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, fused="--fused" in sys.argv)
images, labels = torch.randn(32, 3, 32, 32), torch.randint(10, (32,))


def step():
    loss = nn.functional.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


with profile(
    activities=[ProfilerActivity.CPU],
    schedule=schedule(wait=2, warmup=1, active=3),
    on_trace_ready=lambda profiler: profiler.export_chrome_trace(sys.argv[1]),
    record_shapes=True,
    with_stack=True,
    with_modules=True,
) as recording:
    for _ in range(6):
        print(f"loss {step():.3f}")
        recording.step()
