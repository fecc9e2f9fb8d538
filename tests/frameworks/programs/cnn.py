"""A plain two-layer CNN, trained for some steps. cnn.py STEPS THREADS [channels_last] [wide] [inference]"""

import sys

import torch
from torch import nn

steps, threads = int(sys.argv[1]), int(sys.argv[2])
torch.set_num_threads(threads)
torch.manual_seed(0)
width = 512 if "wide" in sys.argv else 16
model = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, width, 3, padding=1), nn.ReLU(),
                      nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10))
images, labels = torch.randn(8, 3, 32, 32), torch.randint(10, (8,))
if "channels_last" in sys.argv:
    model, images = (x.to(memory_format=torch.channels_last) for x in (model, images))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(steps):
    if "inference" in sys.argv:
        with torch.no_grad():
            print(step, tuple(model(images).shape), flush=True)
        continue
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(images), labels).backward()
    optimizer.step()
    print(step, flush=True)
