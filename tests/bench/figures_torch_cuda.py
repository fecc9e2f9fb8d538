"""dlhook's cost for the unmodified PyTorch CUDA wheel on the fake libraries: its import, and a training step in which
the GPU's part takes no time."""

import os
import random

from runner import CUDA_PYTHON, SHIM, RunFolder, run, say
from stats import Estimate, Row

HERE = os.path.dirname(os.path.abspath(__file__))
BLOCK = 4


def imports(rounds):
    command = [CUDA_PYTHON, "-B", os.path.join(HERE, "torch_cuda_import.py")]
    plain, cpu, wall = [], [], []
    problem = ""
    for i in range(rounds):
        say(f"import of torch for CUDA, round {i + 1} of {rounds}")
        times = {}
        for variant in random.sample(["none", "dlhook"], 2):
            times[variant], (calls, _) = _run(variant, command)
            if (calls == 0) == (variant == "dlhook"):
                problem = f"{calls} calls recorded, variant {variant}"
        plain.append(times["none"]["cpu_ns"] / 1e6)
        cpu.append((times["dlhook"]["cpu_ns"] - times["none"]["cpu_ns"]) / 1e6)
        wall.append((times["dlhook"]["wall_ns"] - times["none"]["wall_ns"]) / 1e6)
    return [
        Row("import torch: without dlhook", "ms CPU", Estimate(plain), digits=0),
        Row("import torch: added by dlhook", "ms CPU", Estimate(cpu), limit=50, digits=1, problem=problem),
        Row("import torch: added, wall time", "ms", Estimate(wall), digits=1),
    ]


def steps(groups):
    program = [CUDA_PYTHON, "-B", os.path.join(HERE, "torch_cuda_steps.py")]
    say(f"steps on the fakes, {groups} groups of {BLOCK} steps per mode")
    result, (calls, lost) = _run("dlhook", [*program, groups, BLOCK])
    few, (few_calls, _) = _run("dlhook", [*program, 1, BLOCK])  # the part before the first step is in both
    calls_each = (calls - few_calls) / (result["recorded_steps"] - few["recorded_steps"])
    problem = "" if calls_each == int(calls_each) else "steps differ in their calls"
    if lost:
        problem = f"{lost} calls lost"
    ratios = [on / off for on, off in zip(result["on"], result["off"])]
    added = [(on - off) / 1000 for on, off in zip(result["on"], result["off"])]
    name = "LeNet on the fakes, a step"
    return [
        Row(f"{name}: recording stopped", "us CPU", Estimate([time / 1000 for time in result["off"]]), digits=0),
        Row(f"{name}: added by recording", "us CPU", Estimate(added), digits=1,
            note=f"{calls_each:.0f} calls recorded, writer thread included", problem=problem),
        Row(f"{name}: recording / stopped", "ratio", Estimate(ratios), digits=4),
    ]


def _run(variant, command):
    """(its output, (calls recorded, lost))"""
    if variant == "none":
        return run(command), (0, 0)
    with RunFolder() as folder:
        result = run(command, LD_PRELOAD=SHIM, DLHOOK_OUT=folder.path, DLHOOK_SCOPES="off", DLHOOK_PYTHON="off")
        return result, folder.counts()


def torch_cuda_figures(scale):
    return imports(max(3, int(31 * scale))) + steps(max(8, int(300 * scale)))
