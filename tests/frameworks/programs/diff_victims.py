"""One training program, and the same with one thing made worse. diff_victims.py CHANGE [STEPS]

CHANGE: base, or one of CHANGES below. One thread computes, which other programs disturb least; the base of one_thread is two_threads.
"""

import sys
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

change, steps = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 40
CHANGES = ("wider", "deeper", "extra_layer", "contiguous", "float64", "split_batch", "one_thread", "no_foreach", "no_mkldnn", "item",
           "slow_input", "copies", "unfrozen", "gelu", "evaluation", "compiled", "updates", "python")
assert change in ("base", "two_threads", *CHANGES), change
BATCH = 8
torch.set_num_threads(2 if change == "two_threads" else 1)
torch.manual_seed(0)
if change == "no_mkldnn":
    torch.backends.mkldnn.enabled = False


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        width = 96 if change == "wider" else 32
        self.stem = nn.Conv2d(3, 32, 3, padding=1)
        self.body = nn.Conv2d(32, width, 3, padding=1)
        self.act = nn.GELU() if change == "gelu" else nn.ReLU()
        self.tail = nn.Conv2d(width, 32, 3, padding=1)
        if change == "extra_layer":
            self.extra = nn.Conv2d(32, 32, 5, padding=2)
        if change == "deeper":
            self.blocks = nn.Sequential(*(nn.Conv2d(32, 32, 3, padding=1) for _ in range(3)))
        self.head = nn.Sequential(*(nn.Linear(32, 32) for _ in range(12)), nn.Linear(32, 10))
        if change != "unfrozen":
            self.stem.requires_grad_(False)

    def forward(self, x):
        x = self.act(self.stem(x))
        x = self.act(self.body(x))
        x = self.tail(x)
        if change == "extra_layer":
            x = self.extra(x)
        if change == "deeper":
            x = self.blocks(x)
        if change == "copies":
            for _ in range(12):
                x = x.clone(memory_format=torch.contiguous_format).contiguous(memory_format=torch.channels_last)
        return self.head(x.mean((2, 3)))


class Images(Dataset):
    def __len__(self):
        return BATCH * (steps + 1)

    def __getitem__(self, index):
        if change == "slow_input":
            time.sleep(0.003)
        return torch.full((3, 16, 16), float(index % 7)), index % 10


model = Net()
memory_format = torch.contiguous_format if change == "contiguous" else torch.channels_last
model = model.to(memory_format=memory_format)
if change == "float64":
    model = model.double()
teacher = Net().to(memory_format=memory_format).eval()
optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.01, momentum=0.9,
                            foreach=change != "no_foreach")
run = torch.compile(model, backend="eager") if change == "compiled" else model
for x, y in DataLoader(Images(), batch_size=BATCH):
    x = x.to(memory_format=memory_format)
    if change == "float64":
        x = x.double()
    optimizer.zero_grad()
    for part, labels in zip(x.chunk(2), y.chunk(2)) if change == "split_batch" else [(x, y)]:
        output = run(part)
        if change == "evaluation":
            with torch.no_grad():
                teacher(part)
        nn.functional.cross_entropy(output, labels).backward()
    for _ in range(3 if change == "updates" else 1):
        optimizer.step()
    if change == "item":
        total = sum(value.item() for value in output.detach().flatten() for _ in range(5))
    if change == "python":
        total = sum(i * i for i in range(500_000))
