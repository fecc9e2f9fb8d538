"""The cost of a recorded call under dlhook and under its peers, and the speed of reading their traces.

Every round runs each recorder once, in random order, on the same work; only differences and ratios within a round
count.
"""

import contextlib
import os
import random
import resource
import subprocess
import time

import peers
from runner import clean_environment, program, run, say
from stats import Estimate, Row

WARM_UP = 4  # gemm_caller's and onednn_caller's
MAX_LOST = 0.01
# Name, and the limit of dlhook's cost as a part of theirs.
LIMITS = {"LTTng, 2 tracepoints": 0.25, "uftrace, 5 arguments": 0.333, "ltrace": None}
LTRACE = "ltrace"
# Totals of each function, like uftrace's report; babeltrace2 only counts what it has decoded.
LIKE_FOR_LIKE = "dlhook report --table ops"


@contextlib.contextmanager
def recorders():
    """{name: recorder}, without those that are not installed, which are reported."""
    found = {"none": peers.Plain(), "dlhook": peers.Dlhook()}
    with contextlib.ExitStack() as stack:
        for name, recorder in zip(LIMITS, (peers.Lttng(), peers.Uftrace(), peers.Ltrace())):
            absent = peers.missing(*recorder.needs)
            if absent:
                say_missing(name, absent)
                continue
            try:
                found[name] = stack.enter_context(recorder) if hasattr(recorder, "__enter__") else recorder
            except (OSError, RuntimeError) as error:
                say(f"SKIPPED: {name}: {error}", always=True)
        yield found


def say_missing(name, absent):
    say(f"SKIPPED: {name}: no {', '.join(absent)}: run scripts/setup.sh --peers", always=True)


class Calls:
    """The samples of all rounds: CPU time that a recorder adds to a call."""

    def __init__(self, found, threads, batches):
        self.found, self.threads, self.batches = found, threads, batches
        self.alone = {name: [] for name in found}  # of the calling threads
        self.all = {name: [] for name in found}  # of all processes
        self.bytes = {name: [] for name in found}
        self.problems = {}

    def round(self):
        thread, everything = {}, {}
        for name in random.sample(list(self.found), len(self.found)):
            thread[name], everything[name] = self._run(name)
        for name in self.found:
            self.alone[name].append(thread[name] - thread["none"])
            self.all[name].append(everything[name] - everything["none"])

    def _run(self, name):
        # ltrace stops the program twice per call: a few hundred microseconds, so fewer calls suffice.
        batches, calls = (4, 300) if name == LTRACE else (self.batches, 2000)
        caller = [program("gemm_caller"), self.threads, batches, calls, 1000, 150]
        recorder = self.found[name]
        with recorder.folder() as folder:
            result = recorder.record(caller, folder)
            if name != "none":
                self._check(name, recorder, folder, self.threads * (batches * calls + WARM_UP))
        return sum(result["thread_ns"]) / self.threads, result["process_ns"] + result["background_ns"]

    def _check(self, name, recorder, folder, expected):
        seen = recorder.calls(folder)
        if not expected * (1 - MAX_LOST) <= seen <= expected:
            self.problems[name] = f"{seen} of {expected} calls in the trace of {name}"
        self.bytes[name].append(recorder.trace_bytes(folder) / expected)

    def rows(self):
        title = f"a call, {self.threads} thread{'s' if self.threads > 1 else ''}"
        tools = [name for name in self.found if name != "none"]
        others = [name for name in tools if name in LIMITS]
        both = ((self.alone, title), (self.all, f"{title}, background included"))
        rows = [self._cost(f"{what}: {name}", name, samples) for samples, what in both for name in tools]
        rows += [self._ratio(f"{title}: dlhook / {name}", name, self.alone, LIMITS[name]) for name in others]
        rows += [self._ratio(f"{both[1][1]}: dlhook / {name}", name, self.all, None) for name in others]
        if self.threads == 1:
            rows += [Row(f"trace of these calls: {name}", "B a call", Estimate(sizes), digits=1)
                     for name, sizes in self.bytes.items() if sizes]
        return rows

    def _cost(self, title, name, samples):
        return Row(title, "ns CPU", Estimate(samples[name]), digits=1, problem=self.problems.get(name, ""))

    def _ratio(self, title, name, samples, limit):
        ratios = list(map(_divide, samples["dlhook"], samples[name]))
        problem = self.problems.get(name) or self.problems.get("dlhook", "")
        return Row(title, "ratio", Estimate(ratios), limit, digits=4, problem=problem)


def calls(found, rounds):
    rows = []
    for threads, batches in ((1, 200), (2, 100)):
        # ltrace is slower than everything else by three orders of magnitude: once is enough.
        series = Calls({k: v for k, v in found.items() if threads == 1 or k != LTRACE}, threads, batches)
        for i in range(rounds):
            say(f"peers: cost of a call, {threads} thread(s), round {i + 1} of {rounds}")
            series.round()
        rows += series.rows()
    return rows


def onednn(rounds, batches=50, calls=500):
    """Executions of a small primitive of Debian's oneDNN, which its own log also reports."""
    if peers.missing("onednn_caller"):
        say_missing("ONEDNN_VERBOSE, oneDNN alone", ["onednn_caller (libdnnl-dev)"])
        return []
    caller, expected = [program("onednn_caller"), batches, calls, 1000, 150], batches * calls + WARM_UP
    alone, everything, problem = {"dlhook": [], "verbose": []}, {"dlhook": [], "verbose": []}, ""
    for i in range(rounds):
        say(f"peers: oneDNN alone, round {i + 1} of {rounds}")
        results = {}
        for name in random.sample(["none", "dlhook", "verbose"], 3):
            results[name], seen = _onednn_run(name, caller)
            if seen != expected and name != "none":
                problem = f"{seen} of {expected} executions in the output of {name}"
        for name in alone:
            alone[name].append(results[name]["thread_ns"][0] - results["none"]["thread_ns"][0])
            everything[name].append(_all(results[name]) - _all(results["none"]))
    return [*_onednn_rows("an execution of oneDNN", alone, 1, problem),
            *_onednn_rows("an execution of oneDNN, background included", everything, None, problem)]


def _onednn_rows(title, samples, limit, problem):
    ratios = Estimate(map(_divide, samples["dlhook"], samples["verbose"]))
    return [Row(f"{title}: dlhook", "ns CPU", Estimate(samples["dlhook"]), digits=0),
            Row(f"{title}: ONEDNN_VERBOSE to a file", "ns CPU", Estimate(samples["verbose"]), digits=0),
            Row(f"{title}: dlhook / ONEDNN_VERBOSE", "ratio", ratios, limit, digits=3, problem=problem)]


def _divide(ours, theirs):
    return ours / theirs


def _all(result):
    return result["process_ns"] + result["background_ns"]


def _onednn_run(name, caller):
    """(the program's output, executions in the output)"""
    single = {"OMP_NUM_THREADS": 1}
    recorder = peers.Dlhook()
    with recorder.folder() as folder:
        if name == "dlhook":
            result = recorder.record(caller, folder, **single)
            return result, recorder.calls(folder)
        if name == "none":
            return run(caller, **single), 0
        log = os.path.join(folder, "log.txt")
        result = run(caller, output=log, ONEDNN_VERBOSE=1, **single)
        with open(log, encoding="utf-8") as file:
            return result, sum(line.startswith("onednn_verbose,exec,") for line in file)


def reading(found, rounds, batches=1000):
    """Traces of the same 2 million calls, from the page cache, complete processes."""
    expected = batches * 2000 + WARM_UP
    readers, counts = {}, {}
    with contextlib.ExitStack() as folders:
        for name, recorder in found.items():
            if not hasattr(recorder, "readers"):
                continue
            say(f"peers: a trace of {expected} calls: {name}")
            folder = folders.enter_context(recorder.folder())
            recorder.record([program("gemm_caller"), 1, batches, 2000, 1000, 150], folder)
            readers.update(recorder.readers(folder))
            counts.update(dict.fromkeys(recorder.readers(folder), recorder.calls(folder)))
        rates, walls = _rates(readers, counts, rounds)
    return _reading_rows(rates, walls, {name: _short(count, expected) for name, count in counts.items()})


def _rates(readers, counts, rounds):
    """Millions of calls per second of CPU and of wall time: {reader: samples} each."""
    rates, walls = {name: [] for name in readers}, {name: [] for name in readers}
    for i in range(rounds):
        say(f"peers: reading, round {i + 1} of {rounds}")
        for name in random.sample(list(readers), len(readers)):
            cpu, wall = _seconds(readers[name])
            rates[name].append(counts[name] / cpu / 1e6)
            walls[name].append(counts[name] / wall / 1e6)
    return rates, walls


def _short(count, expected):
    return "" if count >= expected * (1 - MAX_LOST) else f"only {count} of {expected} calls in the trace"


def _seconds(command):
    """(CPU, wall) of the command with all processes that it starts."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=clean_environment())
    wall, after = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall


def _reading_rows(rates, walls, problems):
    rows = [Row(f"reading: {name}", "M calls/s CPU", Estimate(rates[name]), problem=problems[name],
                note=f"wall {Estimate(walls[name]).value:.2f}") for name in rates]
    for ours in (name for name in rates if name.startswith("dlhook")):
        for theirs in (name for name in rates if not name.startswith("dlhook")):
            problem = problems[ours] or problems[theirs]
            for samples, clock in ((rates, "CPU"), (walls, "wall")):
                limit = 5 if ours == LIKE_FOR_LIKE and clock == "CPU" else None
                ratios = Estimate(map(_divide, samples[ours], samples[theirs]))
                rows.append(Row(f"{ours} / {theirs}: {clock}", "ratio", ratios, limit, at_least=True, digits=1,
                                problem=problem))
    return rows
