"""A training whose memory can be counted by hand. argv[1], if given: torch.profiler records all of it there."""

import collections
import contextlib
import sys

import torch
from torch import nn

BATCH, WIDTH = 512, 1024


def train():
    net = nn.Sequential(collections.OrderedDict(
        up=nn.Linear(256, WIDTH), relu=nn.ReLU(), mid=nn.Linear(WIDTH, WIDTH), gelu=nn.GELU(), head=nn.Linear(WIDTH, 10)))
    optimizer = torch.optim.Adam(net.parameters())
    images, labels = torch.randn(BATCH, 256), torch.randint(0, 10, (BATCH,))
    for _ in range(6):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(images), labels).backward()
        optimizer.step()


torch.manual_seed(0)
torch.set_num_threads(1)
profiler = contextlib.nullcontext()
if len(sys.argv) > 1:
    profiler = torch.profiler.profile(record_shapes=True, with_stack=True, with_modules=True, profile_memory=True)
with profiler:
    train()
if len(sys.argv) > 1:
    profiler.export_chrome_trace(sys.argv[1])
