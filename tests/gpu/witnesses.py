"""Converts the witnesses' data on a training (cuDNN's log, torch.profiler) and dlhook's record to one form and compares
them."""

import collections
import os
import re
import statistics
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "preload_e2e"))
import cudnn_log  # pylint: disable=wrong-import-position
from e2e import one  # pylint: disable=wrong-import-position

# A product without its orientation: row-major callers swap m and n.
Product = collections.namedtuple("Product", "side other_side inner batch")
# The copies in one direction from or to one kind of host memory.
Copied = collections.namedtuple("Copied", "copies bytes")

# Time of a pair of events in addition to the work between them, for the median op: where the GPU waits for the host
# they contain the launch (15 to 20 us on an H200 beside a processor at 2.1 GHz), in first calls the loading of code.
EVENT_EXTRA_NS = 40_000

# Operators of PyTorch that are one product each: the index of their matrices among the inputs.
MATRICES = {"aten::mm": 0, "aten::addmm": 1, "aten::bmm": 0, "aten::baddbmm": 1}


# Operators by dlhook's name for their libraries' work. Kernels launched by PyTorch itself in them count with these.
OPS = {
    "aten::mm": "gemm", "aten::addmm": "gemm", "aten::bmm": "gemm", "aten::baddbmm": "gemm",
    "aten::cudnn_convolution": "convolution", "aten::convolution_backward": "convolution",
    "aten::cudnn_batch_norm": "batch_normalization", "aten::cudnn_batch_norm_backward": "batch_normalization",
}  # fmt: skip
# After the name of an op.
DIRECTIONS = ("forward", "backward", "backward-data", "backward-weights", "backward-bias")


# --- dlhook's record --------------------------------------------------------------------------------------------------


def recorded_executions(trace):
    """{cudnn_log.Execution: number} of a decoded trace (e2e.Trace)."""
    counts = collections.Counter()
    for call in trace.calls:
        cudnn = one(call.op, "cudnn")
        if cudnn is not None and "plan" in cudnn and one(call.op, "function") == "cudnnBackendExecute":
            counts[_execution(cudnn)] += 1
    return counts


def _execution(cudnn):
    plan = one(cudnn, "plan")
    tensors = {(one(tensor, "uid", 0), tuple(tensor.get("dim", [])), tuple(tensor.get("stride", [])))
               for tensor in cudnn.get("tensor", [])}  # fmt: skip
    return cudnn_log.Execution(
        tuple(one(node, "operation") for node in plan.get("node", [])), frozenset(tensors), one(plan, "engine", 0),
        frozenset((one(knob, "type", 0), one(knob, "value", 0)) for knob in plan.get("knob", [])))


def recorded_functions(trace):
    """{function: number of calls} of cuDNN's functions, including inner ones."""
    return collections.Counter(one(call.op, "function") for call in trace.calls if one(call.op, "family") == "cudnn")


def recorded_products(rows):
    """{Product: number} of the rows of `dlhook report --table gemm`."""
    counts = collections.Counter()
    for row in rows:
        if row["kind"] == "gemm":
            counts[_product(row["m"], row["n"], row["k"], row["batch"] or 1)] += row["calls"]
    return counts


def recorded_copies(rows):
    """{(direction, kind of host memory): Copied} of the rows of `dlhook report --table copies`."""
    total = {}
    for row in rows:
        if row["direction"] in ("HtoD", "DtoH", "DtoD"):
            _add(total, (row["direction"], row["memory"] or "none"), row["copies"], row["bytes"])
    return total


def recorded_kernels(rows):
    """{kernel's whole name: [launches, nanoseconds]} of the rows of `dlhook report --table kernels`."""
    total = {}
    for row in rows:
        _add_time(total, row["name"], row["calls"], row["gpu_time"])
    return total


def recorded_op_kernels(rows):
    """The same by the launching op: {op: [launches, nanoseconds]}."""
    total = {}
    for row in rows:
        launched_by = row["launched_by"] or "none"
        words = launched_by.removeprefix("trial:").split()
        op = words[0] if words[-1] in DIRECTIONS else " ".join(words)
        _add_time(total, OPS.get(op, op), row["calls"], row["gpu_time"])
    return total


def recorded_activity_copies(activities):
    """{(direction, kind of host memory): Copied} of the GPU's own copies (gpu_trace.Activity)."""
    total = {}
    for activity in activities:
        if activity.kind == "COPY" and activity.direction in ("HtoD", "DtoH", "DtoD"):
            host = "none" if activity.direction == "DtoD" else activity.host_memory
            _add(total, (activity.direction, host), 1, activity.bytes)
    return total


def recorded_op_times(rows):
    """{(kind, direction, problem): [calls, nanoseconds on the GPU]} of the rows of `dlhook report --table ops`."""
    total = {}
    for row in rows:
        if row.get("gpu_time"):
            _add_time(total, (row["kind"], row["direction"] or "", row["problem"]), row["calls"], row["gpu_time"])
    return total


# --- torch.profiler's record ------------------------------------------------------------------------------------------


def profiled_products(events):
    """The same from a Chrome trace with shapes."""
    counts = collections.Counter()
    for event in events:
        first = MATRICES.get(event.get("name"))
        if event.get("cat") != "cpu_op" or first is None:
            continue
        a, b = event["args"]["Input Dims"][first:first + 2]
        counts[_product(a[-2], b[-1], a[-1], a[0] if len(a) == 3 else 1)] += 1
    return counts


def profiled_copies(events):
    """The same from the GPU's own activities: "Memcpy HtoD (Pageable -> Device)"."""
    total = {}
    for event in events:
        match = re.match(r"Memcpy (HtoD|DtoH|DtoD) \((\w+)[^>]*-> (\w+)", event.get("name", ""))
        if event.get("cat") != "gpu_memcpy" or not match:
            continue
        direction, source, target = match.groups()
        host = {"HtoD": source, "DtoH": target, "DtoD": "none"}[direction]
        _add(total, (direction, host.lower()), 1, event["args"]["bytes"])
    return total


def profiled_kernels(events):
    """The same as recorded_kernels: Kineto gives complete names and times in microseconds."""
    total = {}
    for event in events:
        if event.get("cat") == "kernel":
            _add_time(total, event["name"], 1, round(event["dur"] * 1000))
    return total


def profiled_op_kernels(events):
    """{op: [kernels, nanoseconds]}: kernels have the name of the innermost operator around their launch."""
    operators = {event["args"]["External id"]: event["name"] for event in events
                 if event.get("cat") == "cpu_op" and "External id" in event.get("args", {})}  # fmt: skip
    total = {}
    for event in events:
        if event.get("cat") == "kernel":
            operator = operators.get(event["args"].get("External id"), "none")
            _add_time(total, OPS.get(operator, operator), 1, round(event["dur"] * 1000))
    return total


def _product(m, n, k, batch):
    return Product(min(m, n), max(m, n), k, batch)


def _add(total, key, copies, size):
    before = total.get(key, Copied(0, 0))
    total[key] = Copied(before.copies + copies, before.bytes + size)


def _add_time(total, key, count, nanoseconds):
    sums = total.setdefault(key, [0, 0])
    sums[0] += count
    sums[1] += nanoseconds


# --- comparison -------------------------------------------------------------------------------------------------------


def differences(witness, recorded):
    """A line for each key for which the two dictionaries differ; none if they agree."""
    keys = sorted(set(witness) | set(recorded), key=repr)
    return [f"{_text(key)}: {_amount(witness.get(key))} by the witness, {_amount(recorded.get(key))} recorded"
            for key in keys if witness.get(key) != recorded.get(key)]  # fmt: skip


def median_times(runs):
    """{key: [count, nanoseconds]} of several such dictionaries: medians of the times. The counts must be equal in all
    runs."""
    return {key: [runs[0].get(key, [0])[0], statistics.median(run[key][1] for run in runs if key in run)]
            for key in {key for run in runs for key in run}}  # fmt: skip


def time_differences(witness, recorded, part, nanoseconds_each):
    """A line for each key that one of the two lacks, whose counts differ, or whose times differ by more than this part
    of the witness's and this much each."""
    lines = []
    for key in sorted(set(witness) | set(recorded), key=repr):
        said, saw = witness.get(key, [0, 0]), recorded.get(key, [0, 0])
        if said[0] != saw[0]:
            lines.append(f"{_text(key)}: {said[0]} by the witness, {saw[0]} recorded")
        elif abs(saw[1] - said[1]) > part * said[1] + nanoseconds_each * said[0]:
            lines.append(f"{_text(key)}: {said[0]} took {said[1]} ns by the witness, {saw[1]} ns recorded")
    return lines


def event_differences(by_cupti, by_events):
    """Pairs of events include all work between them: hardly less than the kernels of another run (of pageable copies
    any two runs differ), and not much more. Kernels and sets inside of other calls have no events of their own."""
    lines, extras = [], []
    for key, (count, nanoseconds) in sorted(by_cupti.items(), key=repr):
        if key not in by_events:
            if key[0] not in ("kernel", "memset"):
                lines.append(f"{_text(key)}: not timed by events")
            continue
        if by_events[key][1] < 0.9 * nanoseconds - 1000 * count and "pageable" not in key[2]:
            lines.append(f"{_text(key)}: {count} took {nanoseconds} ns by CUPTI, {by_events[key][1]} ns by events")
        extras.append((by_events[key][1] - nanoseconds) / count)
    if extras and statistics.median(extras) > EVENT_EXTRA_NS:
        lines.append(f"pairs of events took {statistics.median(extras):.0f} ns more than the work")
    return lines


def _text(key):
    if isinstance(key, cudnn_log.Execution):
        tensors = " ".join("x".join(map(str, dimensions)) for _, dimensions, _ in sorted(key.tensors))
        knobs = " ".join(f"k{knob}={value}" for knob, value in sorted(key.knobs))
        return f"{'+'.join(key.operations)} {tensors} engine {key.engine} {knobs}".rstrip()
    if isinstance(key, Product):
        return f"product {key.side}x{key.other_side}, inner {key.inner}, batch {key.batch}"
    return " ".join(key) if isinstance(key, tuple) else str(key)


def _amount(value):
    if value is None:
        return "none"
    return f"{value.copies} copies of {value.bytes} bytes" if isinstance(value, Copied) else str(value)
