"""The cost of GPU times for the calling thread, on the fake libraries (tests/fakes): a kernel launch with them and
without. The fake CUPTI writes its records on the same thread, so the reference is the bare tracer of tests/gpu if it
can be built: the additional cost of a launch is dlhook's own."""

import os
import random
import sys
import tempfile

from runner import DLHOOK, SHIM, RunFolder, program, run, say
from stats import Estimate, Row

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "gpu"))
import overhead  # pylint: disable=wrong-import-position

BATCHES, CALLS = 20, 1200
FAKES = os.path.join(os.path.dirname(os.path.dirname(DLHOOK)), "tests", "fakes", "cuda13")
# The values of DLHOOK_GPU.
MODES = {"off": "no times of GPUs", "cupti": "times by CUPTI", "events": "times by events"}


def launch(mode, tracer):
    """CPU time of the thread for a launch; `mode`: of MODES, "none" (no dlhook) or "bare" (the tracer alone)."""
    command = [program("cuda_caller"), "launch", BATCHES, CALLS]
    if mode == "none":
        result = run(command, LD_LIBRARY_PATH=FAKES)
    elif mode == "bare":
        result = run(command, LD_LIBRARY_PATH=FAKES, CUDA_INJECTION64_PATH=tracer)
    else:
        with RunFolder() as folder:
            result = run(command, LD_LIBRARY_PATH=FAKES, LD_PRELOAD=SHIM, DLHOOK_OUT=folder.path, DLHOOK_GPU=mode)
    return result["thread_ns"][0]


def gpu_figures(rounds):
    say("cost of times of GPUs")
    with tempfile.TemporaryDirectory(prefix="dlhook-bench-") as folder:
        tracer = os.path.join(folder, "bare_cupti.so")
        has_tracer = overhead.build(sys.executable, tracer) == ""
        names = ["none", *MODES, *(["bare"] if has_tracer else [])]
        spent = {name: [] for name in names}
        for _ in range(rounds):
            for name in random.sample(names, len(names)):
                spent[name].append(launch(name, tracer))

    def added(name, to):
        return Estimate([a - b for a, b in zip(spent[name], spent[to], strict=True)])

    rows = [Row("kernel launch on the fakes: without dlhook", "ns CPU", Estimate(spent["none"]))]
    for mode, words in MODES.items():
        rows.append(Row(f"kernel launch on the fakes: added by dlhook, {words}", "ns CPU", added(mode, "none")))
    if has_tracer:
        rows.append(Row("kernel launch on the fakes: added by a bare tracer", "ns CPU", added("bare", "none")))
        over = added("cupti", "bare")
        rows.append(Row("kernel launch on the fakes: dlhook by CUPTI, over the bare tracer", "ns CPU", over))
    return rows
