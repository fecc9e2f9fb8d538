"""The cost of a hooked call of CUDA's libraries: launches, copies, executions of plans, and the calls around them that
are hooked but not recorded. Stub libraries that return at once; no drain, and the rings hold all records."""

import random

from figures_calls import FLOOR_RING_KIB, RING_64_MIB
from runner import SHIM, RunFolder, program, run, say
from stats import Estimate, Row

BATCHES, CALLS = 20, 24000
# For each kind of call (cuda_caller): its name, the limit of dlhook / floor, bytes of a record.
RECORDED = {
    "launch": ("kernel launch", 1.25, 88),
    "copy": ("copy", 1.25, 112),
    "copy_new": ("copy from an address never seen", None, 112),
    "execute": ("execution of a cuDNN plan", None, 72),
}
# Calls that are not recorded: nanoseconds that dlhook may add to each.
SILENT = {
    "pack": ("variant pack", 25),
    "pack_cold": ("variant pack, on a thread without a record", None),
}


def recorded(kind, rounds):
    """A call and its record, over the floor."""
    name, limit, record_bytes = RECORDED[kind]
    say(f"cost of a {name}")
    costs = {"floor": [], "dlhook": []}
    ratios = []
    problem = ""
    for _ in range(rounds):
        spent, count = _round(kind, ["none", "floor", "dlhook"])
        floor, dlhook = spent["floor"] - spent["none"], spent["dlhook"] - spent["none"]
        costs["floor"].append(floor)
        costs["dlhook"].append(dlhook)
        ratios.append(dlhook / floor)
        if count < BATCHES * CALLS:
            problem = f"only {count} of {BATCHES * CALLS} calls recorded"
    return [
        Row(f"{name}: floor (2 rdtsc, {record_bytes} B)", "ns CPU", Estimate(costs["floor"])),
        Row(f"{name}: dlhook", "ns CPU", Estimate(costs["dlhook"])),
        Row(f"{name}: dlhook / floor", "ratio", Estimate(ratios), limit, digits=3, problem=problem),
    ]


def silent(kind, rounds):
    """dlhook's addition to each call of a sequence that it tracks but does not record."""
    name, limit = SILENT[kind]
    say(f"cost of a {name}")
    added = []
    problem = ""
    for _ in range(rounds):
        spent, count = _round(kind, ["none", "dlhook"])
        added.append(spent["dlhook"] - spent["none"])
        if count >= CALLS:
            problem = "its calls were recorded"
    note = "create, 3 x set, finalize, destroy"
    return [Row(f"{name}: each call, not recorded", "ns CPU", Estimate(added), limit, note=note, problem=problem)]


def _round(kind, variants):
    """({variant: CPU time per call}, calls in dlhook's trace); each variant in a separate process, in any order."""
    caller = [program("cuda_caller"), kind, BATCHES, CALLS]
    spent, count = {}, 0
    for variant in random.sample(variants, len(variants)):
        if variant == "dlhook":
            with RunFolder() as folder:
                environment = {"DLHOOK_OUT": folder.path, "DLHOOK_RING_KIB": RING_64_MIB, "DLHOOK_DRAIN": "none",
                               "DLHOOK_GPU": "off"}  # figures_gpu.py
                result = run(caller, LD_PRELOAD=SHIM, **environment)
                count = folder.counts()[0] if folder.was_made() else 0
        elif variant == "floor":
            result = run(caller, LD_PRELOAD=program("libfloor_cuda.so"), FLOOR_RING_KIB=FLOOR_RING_KIB)
        else:
            result = run(caller)
        spent[variant] = result["thread_ns"][0]
    return spent, count


def cuda_figures(rounds):
    rows = []
    for kind in RECORDED:
        rows += recorded(kind, rounds)
    for kind in SILENT:
        rows += silent(kind, rounds)
    return rows
