"""Trains a network whose mode changes every few steps: dlhook recording everything, everything except scopes and
Python, or nothing. Needs torch; runs under `dlhook run` (figures_scopes.py starts it) and prints its times as one JSON
object.

Usage: torch_scope_steps.py MODEL GROUPS BLOCK SKIP    MODEL: a function of torch_steps; each group is one block of SKIP
+ BLOCK steps per mode, the first SKIP untimed (in light mode the first steps after a start are all recorded)
"""

import gc
import json
import os
import random
import re
import sys
import time

import torch

import torch_steps

MODES = ["off", "calls", "all"]
TAPS = ("record_function", "trace_me", "nvtx", "python")
API = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "preload", "api", "common.api")


def tap_families():
    """The bits of the taps of scopes and of Python in dlhook's control word: families in the order of the table."""
    with open(API, encoding="utf-8") as file:
        names = re.findall(r"(?m)^family (\w+)", file.read())
    return sum(1 << names.index(name) for name in TAPS)


def main():
    model_name, groups, block, skip = sys.argv[1], *map(int, sys.argv[2:5])
    torch.manual_seed(1)
    torch.set_num_threads(1)
    training = torch_steps.Training(*getattr(torch_steps, model_name)())
    for _ in range(torch_steps.WARM_UP):
        training.step()
    switch = torch_steps.Switch()
    families = {"off": 0, "calls": switch.families & ~tap_families(), "all": switch.families}

    def set_mode(mode):
        switch.enabled.value = families[mode]
        # With oneDNN's log off while nothing is recorded, as in a run without dlhook.
        torch._C._verbose.mkldnn_set_verbose(0)

    blocks = []
    gc.collect()
    gc.disable()
    for group in range(groups):
        for mode in random.sample(MODES, len(MODES)):
            set_mode(mode)
            for _ in range(skip):
                training.step()
            blocks.append((group, mode, *torch_steps.timed_block(training, block)))
        if group % 20 == 19:
            gc.collect()
    set_mode("all")
    shares = [torch_steps.launcher_share(lambda: [training.step() for _ in range(20)]) for _ in range(groups // 20 + 6)]
    set_mode("off")
    time.sleep(0.3)  # the drain takes the rest
    print(json.dumps({"blocks": blocks, "launcher_shares": shares}))


if __name__ == "__main__":
    main()
