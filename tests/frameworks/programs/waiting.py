"""Programs of which some gaps sleep and others compute: waiting.py numpy; torch, with a loader's workers. Prints what their own
clocks say, as JSON, and ends at once, so that nothing comes after it."""

import json
import os
import resource
import sys
import time

STEPS = 60


def of_numpy(told):
    import numpy
    a = numpy.random.rand(200, 200)
    for _ in range(STEPS):
        a @ a
        time.sleep(0.02)  # asleep
        a @ a
        began = time.thread_time()
        while time.thread_time() < began + 0.01:  # computes
            pass
    told["asleep"] = STEPS * 0.02


def of_torch(told):
    import torch
    from torch.utils.data import DataLoader

    class Slow(torch.utils.data.Dataset):
        def __len__(self):
            return 16 * STEPS

        def __getitem__(self, index):
            time.sleep(0.002)
            return torch.randn(64), index % 10

    torch.set_num_threads(1)
    model = torch.nn.Linear(64, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for x, y in DataLoader(Slow(), batch_size=16, num_workers=2):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()


if __name__ == "__main__":
    clocks = {}
    {"numpy": of_numpy, "torch": of_torch}[sys.argv[1]](clocks)
    for name, who in (("process", resource.RUSAGE_SELF), ("children", resource.RUSAGE_CHILDREN)):
        usage = resource.getrusage(who)
        clocks[name] = usage.ru_utime + usage.ru_stime
    clocks["pid"] = os.getpid()
    clocks["main"] = time.thread_time()
    clocks["wall"] = time.clock_gettime(time.CLOCK_BOOTTIME) - int(
        open("/proc/self/stat", encoding="ascii").read().rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
    print(json.dumps(clocks), flush=True)
    os._exit(0)
