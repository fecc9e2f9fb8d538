#!/usr/bin/env python3
"""Trains networks on a real GPU under dlhook and compares with cuDNN's log and torch.profiler; run.sh starts it.

    run.py --dlhook FILE --python FILE [--steps N] [--repeat N] [--rounds N] [--collect FOLDER | --from FOLDER]
           [--record] [NAME…]

NAME: what to train; all if none is named. --repeat: runs of each side of a comparison of times,
alternating; medians count. --rounds: of the comparison with a bare tracer; 0 leaves it out. --collect: runs the
programs, several at a time where no times are compared, and leaves their records in the folder; --from compares such
records, on any machine. --record: keeps the runs in tests/golden/gpu.
Exit codes: 0 all equal; 1 a difference, or a program failed; 2 wrong command line; 77 not run: no GPU, or no PyTorch
for it.
"""

import argparse
import concurrent.futures
import glob
import gzip
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "preload_e2e"))
import cudnn_log  # pylint: disable=wrong-import-position
import e2e  # pylint: disable=wrong-import-position
import gpu_trace  # pylint: disable=wrong-import-position
import overhead  # pylint: disable=wrong-import-position
import witnesses  # pylint: disable=wrong-import-position

NOT_RUN = 77
GOLDEN = os.path.join(HERE, "..", "golden", "gpu")
GOLDEN_TABLES = ("summary", "ops", "algorithms", "layout", "gemm", "copies", "kernels", "tuning", "candidates",
                 "steps", "layers", "launches", "overlap", "guided", "gpu_idle", "devices")  # fmt: skip
KERNEL_TIME_PART, KERNEL_TIME_NS = 0.02, 100  # allowed difference of kernel times: relative, and per kernel

# The trainings, as arguments of train.py.
TRAININGS = {
    "alexnet": ["alexnet"],
    "resnet18": ["resnet18"],
    "resnet18_tuned": ["resnet18", "--channels-last", "--amp", "--benchmark"],
    "alexnet_graph": ["alexnet", "--graph", "--steps", "8"],
}


def why_not(python):
    """The reason why no GPU can be used; empty if there is one. The fake libraries of tests/fakes do not count."""
    if not any(os.path.exists(device) for device in ("/dev/nvidiactl", "/dev/dxg")):
        return "no NVIDIA GPU (no /dev/nvidiactl)"
    code = "import torch; assert torch.version.cuda; torch.zeros(1).cuda(); print(torch.cuda.get_device_name())"
    result = e2e.run([python, "-c", code])
    if result.code != 0:
        lines = result.err.decode(errors="replace").strip().splitlines()
        return f"{python} has no PyTorch that can use the GPU: {lines[-1] if lines else result.code}"
    return ""


class Training:
    """The runs of one network: under dlhook with cuDNN's log, under dlhook alone, and with torch.profiler but without
    dlhook."""

    def __init__(self, python, arguments, folder):
        self.command = [python, "-B", os.path.join(HERE, "train.py"), *arguments]
        self.folder = folder
        os.makedirs(folder, exist_ok=True)
        self.run = self.new_run("run")
        self.replayed = "--graph" in arguments
        self.chooses = "--benchmark" in arguments
        self.log = os.path.join(folder, "cudnn.log")
        self.profile = os.path.join(folder, "profile.json")

    def new_run(self, name):
        return gpu_trace.GpuRun(os.path.join(self.folder, name))

    def record(self, run=None, arguments=(), **environment):
        """Into `run`; by default into the first one with cuDNN's log, which costs time and does not change the
        order."""
        if run is None:
            run, environment = self.run, {"CUDNN_LOGLEVEL_DBG": "3", "CUDNN_LOGDEST_DBG": self.log, **environment}
        _checked([e2e.DLHOOK, "run", "-o", run.path, "--", *self.command, *arguments],
                 e2e.clean_environment(**environment))
        return run

    def witness(self, *arguments, profile=None, **environment):
        _checked([*self.command, "--profile", profile or self.profile, *arguments], e2e.clean_environment(**environment))
        return profile or self.profile

    def collect_calls(self):
        """What is compared by numbers, for which it does not matter what else the GPU does."""
        self.record()
        self.witness()
        if not self.replayed and not self.chooses:
            self.witness(*MIDDLE, profile=self._file("alone.json"))
            self.record(self.new_run("middle"), [*MIDDLE, "--profile", self._file("beside.json")])

    def collect_times(self, count):
        """What is compared by times: runs and profiles alternate, so that a GPU's temperature affects both."""
        if self.chooses:
            return
        for i in range(count):
            self.record(self.new_run(f"times{i}"))
            self.witness(profile=self._file(f"times{i}.json"))
        if count and not self.replayed:
            self.record(self.new_run("events"), DLHOOK_GPU="events")

    def _file(self, name):
        return os.path.join(self.folder, name)

    def plans(self):
        """(differences, number of plans executed)"""
        with open(self.log, encoding="utf-8", errors="replace") as file:
            log = cudnn_log.entries(file.read())
        trace = self.run.trace()
        said, recorded = cudnn_log.executions(log), witnesses.recorded_executions(trace)
        functions = witnesses.recorded_functions(trace)
        calls = {name: count for name, count in cudnn_log.calls(log).items() if name in functions}
        lost = [f"{trace.loss_count()} calls lost"] if trace.loss_count() else []
        lines = lost + witnesses.differences(said, recorded) + witnesses.differences(calls, functions)
        return lines, sum(said.values())

    def products(self):
        said = witnesses.profiled_products(events_of(self.profile))
        recorded = witnesses.recorded_products(self.run.table("gemm"))
        return witnesses.differences(said, recorded), sum(said.values())

    def copies(self):
        said = witnesses.profiled_copies(events_of(self.profile))
        recorded = witnesses.recorded_copies(self.run.table("copies"))
        return witnesses.differences(said, recorded), sum(copied.copies for copied in said.values())

    def gpu_copies(self):
        said = witnesses.profiled_copies(events_of(self.profile))
        recorded = witnesses.recorded_activity_copies(self.run.trace().activities)
        return witnesses.differences(said, recorded), sum(copied.copies for copied in said.values())

    def kernel_times(self):
        """By kernel and by op: medians over the runs and over the profiles. The profiler has no op for replayed
        work."""
        lines, count = [], 0
        repeats = range(len(glob.glob(self._file("times*.json"))))
        profiles = [events_of(self._file(f"times{i}.json")) for i in repeats]
        runs = [self.new_run(f"times{i}") for i in repeats]
        for said_of, recorded_of in KERNEL_SUMS[:1] if self.replayed else KERNEL_SUMS:
            said = witnesses.median_times([said_of(events) for events in profiles])
            recorded = witnesses.median_times([recorded_of(run.table("kernels")) for run in runs])
            lines += witnesses.time_differences(said, recorded, KERNEL_TIME_PART, KERNEL_TIME_NS)
            count += sum(number for number, _ in said.values())
        return lines, count

    def event_times(self):
        by_cupti = witnesses.recorded_op_times(self.new_run("times0").table("ops"))
        by_events = witnesses.recorded_op_times(self.new_run("events").table("ops"))
        return witnesses.event_differences(by_cupti, by_events), len(by_cupti)

    def has_times(self):
        """Not with --repeat 0."""
        return os.path.exists(self._file("times0.json"))

    def profiler_in_the_middle(self):
        """The profiler sees the same as without dlhook, and dlhook continues after it."""
        counts = [witnesses.profiled_kernels(events_of(self._file(name))) for name in ("alone.json", "beside.json")]
        alone, beside = [{name: number for name, (number, _) in kernels.items()} for kernels in counts]
        lines = witnesses.differences(alone, beside)
        sources = [source for _, source, _ in self.new_run("middle").trace().windows]
        if sources[:1] != ["GPU_TIME_CUPTI"] or "GPU_TIME_NONE" not in sources or sources[-1:] != ["GPU_TIME_CUPTI"]:
            lines.append(f"times of GPUs came from {sources}: expected CUPTI before and after a gap")
        return lines, sum(alone.values())


# A profile of two of six steps.
MIDDLE = ("--steps", "6", "--profile-steps", "2:4")

# The profiler's kernel times, and those of a run's table.
KERNEL_SUMS = [(witnesses.profiled_kernels, witnesses.recorded_kernels),
               (witnesses.profiled_op_kernels, witnesses.recorded_op_kernels)]  # fmt: skip


def events_of(profile):
    with open(profile, encoding="utf-8") as file:
        return json.load(file)["traceEvents"]


def _checked(command, environment):
    result = e2e.run(command, env=environment, timeout=900)
    if result.code != 0:
        said = result.err.decode(errors="replace")[-2000:]
        raise RuntimeError(f"{' '.join(command)} ended with {result.code}:\n{said}")


def compare(name, checks):
    """Prints a line for each check, and the differences. True if all are equal and something was compared."""
    alike = True
    for subject, check in checks.items():
        lines, count = check()
        if count == 0:
            lines = [*lines, "the witness saw none"]
        verdict = "differ" if lines else "alike"
        print(f"{name}: {subject}: {count}, {verdict}", *(f"  {line}" for line in lines[:40]), sep="\n", flush=True)
        alike = alike and not lines
    return alike


def keep(name, run):
    """The trace and its tables now, for check_golden.py."""
    traces = [file for file in run.files() if file.endswith(".dlh")]
    if len(traces) != 1:
        raise RuntimeError(f"{name}: {len(traces)} process traces instead of one")
    os.makedirs(os.path.join(GOLDEN, "expected"), exist_ok=True)
    with open(os.path.join(run.path, traces[0]), "rb") as file:
        data = gzip.compress(file.read(), 9, mtime=0)
    with open(os.path.join(GOLDEN, name + ".dlh.gz"), "wb") as file:
        file.write(data)
    for table in GOLDEN_TABLES:
        with open(os.path.join(GOLDEN, "expected", f"{name}.{table}.csv"), "wb") as file:
            file.write(table_csv(os.path.join(run.path, traces[0]), table))
    print(f"{name}: kept {len(data)} bytes in {os.path.relpath(GOLDEN)}", flush=True)


def table_csv(trace, table):
    command = [e2e.DLHOOK, "report", trace, "--table", table, "--format", "csv"]
    return subprocess.run(command, check=True, capture_output=True, env=e2e.clean_environment()).stdout


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(TRAININGS)}; all if none is named")
    parser.add_argument("--dlhook", required=True, help="the built command")
    parser.add_argument("--python", default="python3", help="one with PyTorch for CUDA")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=overhead.ROUNDS)
    parser.add_argument("--record", action="store_true", help="keep the runs in tests/golden/gpu")
    folders = parser.add_mutually_exclusive_group()
    folders.add_argument("--collect", metavar="FOLDER")
    folders.add_argument("--from", metavar="FOLDER", dest="source")
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in TRAININGS]
    if unknown:
        parser.error(f"unknown name '{unknown[0]}', expected {', '.join(TRAININGS)}")
    return options


def collect(trainings, repeat):
    with concurrent.futures.ThreadPoolExecutor(max(1, (os.cpu_count() or 1) // 4)) as pool:
        list(pool.map(Training.collect_calls, trainings.values()))
    for training in trainings.values():
        training.collect_times(repeat)


def compare_all(trainings, record):
    alike = True
    for name, training in trainings.items():
        same = compare(name, checks_of(training))
        if same and record:
            keep(name, training.run)
        alike = alike and same
    return alike


def main():
    options = parse()
    reason = "" if options.source else why_not(options.python)
    if reason:
        print(f"SKIPPED: gpu: {reason}")
        return NOT_RUN
    e2e.DLHOOK = os.path.abspath(options.dlhook)
    with tempfile.TemporaryDirectory(prefix="dlhook-gpu-") as temporary:
        folder = os.path.abspath(options.source or options.collect or temporary)
        trainings = {name: Training(options.python, ["--steps", str(options.steps), *TRAININGS[name]],
                                    os.path.join(folder, name)) for name in options.names or TRAININGS}  # fmt: skip
        if not options.source:
            collect(trainings, options.repeat)
        alike = options.collect is not None or compare_all(trainings, options.record)
    if options.rounds and not options.source:
        alike = overhead.is_small(options.python, options.rounds) and alike
    return 0 if alike else 1


def checks_of(training):
    """Replayed work makes no calls: products and cuDNN's log contain only the captured ones. Where PyTorch measures
    which algorithm is fastest, no two runs launch the same kernels."""
    checks = {"copies on the GPU": training.gpu_copies}
    if not training.replayed:
        checks |= {"plans executed": training.plans, "products": training.products, "copies": training.copies}
    if not training.chooses and training.has_times():
        checks["times of kernels"] = training.kernel_times
    if not training.replayed and not training.chooses:
        if training.has_times():
            checks["events beside CUPTI"] = training.event_times
        checks["a profiler in the middle"] = training.profiler_in_the_middle
    return checks


if __name__ == "__main__":
    sys.exit(main())
