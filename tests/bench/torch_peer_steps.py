"""Trains a small LeNet alternately under other profilers: none, oneDNN's log to standard output (redirect it to a
file), torch.profiler, cProfile. Needs torch; runs without dlhook (figures_peers_torch.py starts it) and prints its
times as one JSON object on its last line.

Usage: torch_peer_steps.py GROUPS BLOCK    each group is one block of BLOCK steps per mode, in random order, and three
more of the modes that cost little
"""

import cProfile
import gc
import json
import os
import random
import sys
import tempfile
import time

import torch
import torch_steps
from torch.profiler import ProfilerActivity, profile


class Clock:
    """(wall, CPU of this process) in ns, at each mark."""

    def __init__(self):
        self.marks = []

    def mark(self):
        self.marks.append((time.monotonic_ns(), time.process_time_ns()))

    def between(self, first, last):
        return [after - before for before, after in zip(self.marks[first], self.marks[last])]


def plain(training, block):
    clock = Clock()
    clock.mark()
    for _ in range(block):
        training.step()
    clock.mark()
    return {"off": clock.between(0, 1)}


def verbose(training, block):
    torch._C._verbose.mkldnn_set_verbose(1)
    times = plain(training, block)["off"]
    torch._C._verbose.mkldnn_set_verbose(0)
    return {"verbose": times}


def c_profile(training, block):
    clock = Clock()
    clock.mark()
    profiler = cProfile.Profile()
    profiler.enable()
    for _ in range(block):
        training.step()
    profiler.disable()
    profiler.create_stats()
    clock.mark()
    return {"cProfile": clock.between(0, 1)}


def torch_profiler(name, **options):
    """Its window's marks: 0 begin, 1 started, 2 steps done, 3 stopped, 4 trace written."""

    def measure(training, block):
        clock = Clock()
        clock.mark()
        profiler = profile(activities=[ProfilerActivity.CPU], **options)
        profiler.start()
        clock.mark()
        for _ in range(block):
            training.step()
        clock.mark()
        profiler.stop()
        clock.mark()
        with tempfile.TemporaryDirectory(prefix="dlhook-bench-") as folder:
            profiler.export_chrome_trace(os.path.join(folder, "trace.json"))
        clock.mark()
        windows = {f"{name}, inside": (1, 2), name: (0, 3), f"{name}, written": (0, 4)}
        return {window: clock.between(*marks) for window, marks in windows.items()}

    return measure


LIGHT = [plain, verbose, c_profile]
EXTRA_LIGHT = 3
STACKS = {"record_shapes": True, "with_stack": True, "with_modules": True}
MODES = [*LIGHT, torch_profiler("torch.profiler"),
         torch_profiler("torch.profiler (shapes)", record_shapes=True),
         torch_profiler("torch.profiler (shapes, stacks)", **STACKS)]


def main():
    groups, block = map(int, sys.argv[1:3])
    torch.manual_seed(1)
    torch.set_num_threads(1)
    training = torch_steps.Training(*torch_steps.small_lenet())
    for _ in range(torch_steps.WARM_UP):
        training.step()
    for mode in MODES:  # the first window of a profiler costs more than the others
        mode(training, 2)
    collected = []
    gc.collect()
    gc.disable()
    for i in range(groups):
        # Small additions need more samples, and take little time.
        for modes in (MODES, *[LIGHT] * EXTRA_LIGHT):
            group = {}
            for mode in random.sample(modes, len(modes)):
                training.step()  # to fill the new mode's caches
                group.update(mode(training, block))
            collected.append(group)
        if i % 10 == 9:
            gc.collect()
    print(json.dumps({"groups": collected, "logged_steps": 2 + len(collected) * block}))


if __name__ == "__main__":
    main()
