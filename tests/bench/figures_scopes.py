"""The cost of scopes, Python stacks and module names in a PyTorch training: torch_scope_steps.py's blocks, paired
within their group."""

import os
import statistics

import trace_check
from runner import DLHOOK, TORCH_PYTHON, RunFolder, run, say
from stats import Estimate, Row

HERE = os.path.dirname(os.path.abspath(__file__))
MARGIN_NS = 2000  # clocks of trace and program agree better than this


class Training:
    """One process's blocks."""

    def __init__(self, model, groups, block, skip, mode, counters=""):
        say(f"{model}, DLHOOK_SCOPES={mode} DLHOOK_COUNTERS={counters}: {groups} groups of {skip} + {block} steps per mode")
        command = [TORCH_PYTHON, os.path.join(HERE, "torch_scope_steps.py"), model, groups, block, skip]
        with RunFolder() as folder:
            result = run([DLHOOK, "run", "-o", folder.path, "--", *command], DLHOOK_SCOPES=mode, DLHOOK_COUNTERS=counters)
            times = trace_check.call_times(folder.path, "scope_batch")
            lost = folder.counts()[1]
        self.groups, in_blocks = {}, {"off": 0, "calls": 0, "all": 0}
        for group, kind, wall, cpu, start, end in result["blocks"]:
            self.groups.setdefault(group, {})[kind] = (wall, cpu)
            in_blocks[kind] += trace_check.calls_between(times, start + MARGIN_NS, end - MARGIN_NS)
        self.scopes_per_step = in_blocks["all"] / groups / block
        self.problem = ""
        if lost != 0:
            self.problem = f"{lost} calls or scopes lost"
        elif in_blocks["off"] + in_blocks["calls"] != 0 or in_blocks["all"] == 0:
            self.problem = f"scopes were not recorded where they should be: {in_blocks}"
        self.launcher = statistics.median(result["launcher_shares"])

    def ratio(self, mode, clock):
        """mode / off, by group. clock: 0 wall, 1 CPU of the application."""
        return Estimate([modes[mode][clock] / modes["off"][clock] for modes in self.groups.values()])


def _rows(name, training, limit):
    note = f"{training.scopes_per_step:.0f} scopes a step"
    return [
        Row(f"{name}: wall time", "ratio", training.ratio("all", 0), limit, digits=4, note=note, problem=training.problem),
        Row(f"{name}: CPU, application", "ratio", training.ratio("all", 1), digits=4),
        Row(f"{name}: CPU, drain included", "ratio", training.ratio("all", 1).plus(training.launcher), digits=4,
            note=f"with {training.launcher:.4f} for the launcher"),
        Row(f"{name}: CPU, calls alone", "ratio", training.ratio("calls", 1), digits=4),
    ]


def scopes_figures(scale):
    """`scale` multiplies the number of groups."""
    def groups(count):
        return max(8, int(count * scale))

    rows = _rows("LeNet, scopes and modules", Training("lenet", groups(400), 3, 1, "on"), 1.08)
    rows += _rows("LeNet, scopes, modules and software counters", Training("lenet", groups(400), 3, 1, "on", "software"), 1.10)
    # A whole number of cycles of the light mode, after the initial steps that are all recorded.
    rows += _rows("LeNet, light", Training("lenet", groups(60), 32, 20, "light"), 1.04)
    rows += _rows("CNN of AlexNet's size, scopes and modules", Training("alexnet", groups(100), 1, 1, "on"), 1.03)
    return rows
