"""The cost of recording in a PyTorch training: torch_steps.py's blocks, paired within their group."""

import os
import statistics

import trace_check
from runner import DLHOOK, TORCH_PYTHON, RunFolder, run, say
from stats import Estimate, Row

HERE = os.path.dirname(os.path.abspath(__file__))
MARGIN_NS = 2000  # clocks of trace and program agree better than this


class Training:
    """One process's blocks."""

    def __init__(self, model, threads, groups, block, level=1, stacks="off"):
        say(f"{model}, {threads} thread(s), level {level}: {groups} groups of {block} steps per mode")
        command = [TORCH_PYTHON, os.path.join(HERE, "torch_steps.py"), model, threads, groups, block]
        with RunFolder() as folder:
            result = run([DLHOOK, "run", "-o", folder.path, "--", *command], DLHOOK_ONEDNN_LEVEL=level, DLHOOK_SCOPES="off",
                         DLHOOK_PYTHON="off", DLHOOK_STACKS=stacks)
            times = trace_check.call_times(folder.path)
            self.bytes_per_call = folder.trace_bytes() / len(times)
            self.problem = _problem(result, times, folder.counts()[1])
        self.groups = {}
        for group, mode, wall, cpu, _start, _end in result["blocks"]:
            self.groups.setdefault(group, {})[mode] = (wall, cpu)
        self.calls_per_step = _calls_in(times, result, "on") / groups / block
        self.launcher = statistics.median(result["launcher_shares"])
        self.idle_launcher = Estimate([100 * share for share in result["idle_launcher_shares"]])

    def ratio(self, mode, clock):
        """mode / off, by group. clock: 0 wall, 1 CPU of the application."""
        return Estimate([modes[mode][clock] / modes["off"][clock] for modes in self.groups.values()])


def _calls_in(times, result, mode):
    return sum(trace_check.calls_between(times, b[4], b[5]) for b in result["blocks"] if b[1] == mode)


def _problem(result, times, lost):
    """A sentence if the modes did not behave as expected."""
    if lost != 0:
        return f"{lost} calls lost"
    counts = {"on": set(), "off": set(), "log": set()}
    for _, mode, _, _, start, end in result["blocks"]:
        counts[mode].add(trace_check.calls_between(times, start - MARGIN_NS, end + MARGIN_NS))
    if counts["off"] != {0} or counts["log"] != {0}:
        return "calls were recorded while recording was stopped"
    if len(counts["on"]) != 1 or 0 in counts["on"]:
        return f"blocks of equal work have different numbers of calls: {sorted(counts['on'])}"
    return ""


def _rows(name, training, limit, wall_only=False):
    note = f"{training.calls_per_step:.0f} calls a step"
    background = f"with {training.launcher:.4f} for the launcher"
    rows = []
    if not wall_only:
        application = training.ratio("on", 1)
        rows.append(Row(f"{name}: CPU, drain included", "ratio", application.plus(training.launcher), limit, digits=4,
                        note=background, problem=training.problem))
        rows.append(Row(f"{name}: CPU, application", "ratio", application, digits=4))
        rows.append(Row(f"{name}: CPU, lines made, not recorded", "ratio", training.ratio("log", 1), digits=4))
    wall = training.ratio("on", 0)
    rows.append(Row(f"{name}: wall time", "ratio", wall, limit, digits=4, note=note, problem=training.problem))
    return rows


def torch_figures(scale):
    """`scale` multiplies the number of groups."""
    def groups(count):
        return max(8, int(count * scale))

    first = Training("lenet", 1, groups(700), 3)
    rows = _rows("LeNet, level 1", first, 1.03)
    rows += _rows("LeNet, level 1, 2 threads", Training("lenet", 2, groups(120), 3), 1.03, wall_only=True)
    rows += _rows("LeNet, level 2", Training("lenet", 1, groups(700), 3, level=2), 1.045)
    rows += _rows("LeNet, level 1, native stacks", Training("lenet", 1, groups(700), 3, stacks="native"), 1.08)
    rows += _rows("CNN of AlexNet's size, level 1", Training("alexnet", 1, groups(150), 1), 1.01)
    rows.append(Row("launcher while nothing is recorded", "% of a core", first.idle_launcher))
    rows.append(Row("trace of LeNet's training", "B a call", Estimate([first.bytes_per_call]), limit=32))
    return rows
