"""Brings what others say of a training (cuDNN's log, torch.profiler) and what dlhook recorded into one form and compares
them."""

import collections
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "preload_e2e"))
import cudnn_log  # pylint: disable=wrong-import-position
from e2e import one  # pylint: disable=wrong-import-position

# A product without its orientation: row-major callers swap m and n.
Product = collections.namedtuple("Product", "side other_side inner batch")
# What was copied in one direction from or to one kind of host memory.
Copied = collections.namedtuple("Copied", "copies bytes")

# Operators of PyTorch that are one product each: where their matrices stand among the inputs.
MATRICES = {"aten::mm": 0, "aten::addmm": 1, "aten::bmm": 0, "aten::baddbmm": 1}


# --- what dlhook recorded ---------------------------------------------------------------------------------------------


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
    """{function: number of calls} of cuDNN's functions, inner ones included."""
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


# --- what torch.profiler saw ------------------------------------------------------------------------------------------


def profiled_products(events):
    """The same of a Chrome trace with shapes."""
    counts = collections.Counter()
    for event in events:
        first = MATRICES.get(event.get("name"))
        if event.get("cat") != "cpu_op" or first is None:
            continue
        a, b = event["args"]["Input Dims"][first:first + 2]
        counts[_product(a[-2], b[-1], a[-1], a[0] if len(a) == 3 else 1)] += 1
    return counts


def profiled_copies(events):
    """The same of the GPU's own activities: "Memcpy HtoD (Pageable -> Device)"."""
    total = {}
    for event in events:
        match = re.match(r"Memcpy (HtoD|DtoH|DtoD) \((\w+)[^>]*-> (\w+)", event.get("name", ""))
        if event.get("cat") != "gpu_memcpy" or not match:
            continue
        direction, source, target = match.groups()
        host = {"HtoD": source, "DtoH": target, "DtoD": "none"}[direction]
        _add(total, (direction, host.lower()), 1, event["args"]["bytes"])
    return total


def _product(m, n, k, batch):
    return Product(min(m, n), max(m, n), k, batch)


def _add(total, key, copies, size):
    before = total.get(key, Copied(0, 0))
    total[key] = Copied(before.copies + copies, before.bytes + size)


# --- comparison -------------------------------------------------------------------------------------------------------


def differences(witness, recorded):
    """A line for each key of which the two dictionaries say different things; none if they agree."""
    keys = sorted(set(witness) | set(recorded), key=repr)
    return [f"{_text(key)}: {_amount(witness.get(key))} by the witness, {_amount(recorded.get(key))} recorded"
            for key in keys if witness.get(key) != recorded.get(key)]  # fmt: skip


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
