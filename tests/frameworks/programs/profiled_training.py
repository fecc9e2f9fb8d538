"""A small training recorded by torch.profiler: argv[1] gets its trace."""

import sys

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, schedule


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up = nn.Linear(width, 2 * width)
        self.act = nn.GELU()
        self.down = nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.down(self.act(self.up(x)))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.fc = nn.Linear(8 * 16 * 16, 64)
        self.block = Block(64)
        self.head = nn.Linear(64, 10)

    def forward(self, x):
        x = torch.relu(self.norm(self.stem(x)))
        return self.head(self.block(self.fc(x.flatten(1))))


torch.manual_seed(0)
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
loss_of = nn.CrossEntropyLoss()


def step():
    images, labels = torch.randn(16, 3, 16, 16), torch.randint(0, 10, (16,))
    optimizer.zero_grad()
    loss_of(net(images), labels).backward()
    optimizer.step()


step()
with profile(activities=[ProfilerActivity.CPU], record_shapes=True, with_stack=True, with_modules=True,
             schedule=schedule(wait=1, warmup=1, active=5)) as profiler:
    for _ in range(7):
        step()
        profiler.step()
profiler.export_chrome_trace(sys.argv[1])
