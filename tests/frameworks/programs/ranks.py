"""Data-parallel training of a small network on gloo, started by torchrun; rank 1 comes late to each reduction. ranks.py STEPS [hang]

Each rank prints {rank, pid, batch}, as JSON. hang: rank 1 does not come to the last step.
"""

import json
import os
import sys
import time

import torch
import torch.distributed as dist
from torch import nn

torch.set_num_threads(1)
dist.init_process_group("gloo")
rank = dist.get_rank()
batch = 32 + rank
torch.manual_seed(0)
model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(48, 24), nn.ReLU(), nn.Linear(24, 10)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
steps = int(sys.argv[1])
for step in range(steps):
    if rank == 1 and step == steps - 1 and sys.argv[2:]:
        time.sleep(1000)
    optimizer.zero_grad()
    time.sleep(0.1 * rank)
    model(torch.ones(batch, 48)).sum().backward()
    optimizer.step()
# In one write: the ranks share the pipe.
os.write(1, (json.dumps({"rank": rank, "pid": os.getpid(), "batch": batch}) + "\n").encode())
dist.destroy_process_group()
