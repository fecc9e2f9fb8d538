#!/usr/bin/env python3
"""Software counters of real training: the tables' values for layers, threads, phases and steps add up to the kernel's
values for the processes. Witnesses: their rusage (programs/with_rusage.py) and `perf stat` around the program."""

import json
import os
import shutil

import frameworks
from frameworks import e2e, program

COUNTERS = ["task_clock", "minor_faults", "major_faults", "voluntary_switches", "involuntary_switches"]
# Switches: how often a process is interrupted while it ends, after the last reading, depends on the machine.
TOLERANCES = [0.02, 0.02, 0.02, 0.1, 0.1]
# The process's activity before the shim is loaded, and after the shim's last reading.
UNSEEN = [30e6, 500, 20, 50, 50]


class Counters(frameworks.Case):
    def count(self, host, argv, **environment):
        """The run under the software counters, and the rusage of its processes."""
        told = os.path.join(self.folder, "rusage.json")
        run = self.recorded(host, program("with_rusage", told, *argv), DLHOOK_COUNTERS="software", **environment)
        with open(told, encoding="utf-8") as file:
            return run, json.load(file)

    def rows(self, run, table, *options):
        (found,) = run.report("--table", table, *options)["tables"]
        names = [column["name"] for column in found["columns"]]
        return [dict(zip(names, row, strict=True)) for row in found["rows"]]

    def sums(self, rows):
        return [sum(row[counter] or 0 for row in rows) for counter in COUNTERS]

    def assert_near(self, found, expected, what):
        for counter, a, b, tolerance, more in zip(COUNTERS, found, expected, TOLERANCES, UNSEEN):
            self.assertLessEqual(abs(a - b), tolerance * b + more, f"{counter} of {what}: {a}, kernel: {b}")

    def check_sums(self, run, usage):
        """All tables divide the same sum: that of the processes."""
        layers = self.rows(run, "counters")
        whole = self.sums(layers)
        for by in ("phase", "step", "scope", "thread", "type", "op"):
            self.assertEqual(self.sums(self.rows(run, "counters", "--by", by)), whole, by)
        self.assertEqual(self.sums(self.rows(run, "counters_over_time")), whole)
        self.assertEqual(self.sums(self.rows(run, "counters_over_time", "--interval", "100")), whole)
        sampled = self.sums([row for row in layers if row["layer"] != "[not sampled]"])
        self.assert_near(sampled, usage, "threads")
        self.assert_near(whole, usage, "processes")
        return layers

    def check_layers(self, layers, names):
        """Each layer has counts of its own; threads run part of the time."""
        for name in names:
            forward = [row for row in layers if row["layer"] == name and row["direction"] == "forward"]
            self.assertEqual(len(forward), 1, name)
            self.assertGreater(forward[0]["task_clock"], 0, name)
        for row in layers:
            if row["running_percent"] is not None:
                self.assertLess(row["running_percent"], 110, row["layer"])

    def test_torch_with_two_threads_and_workers(self):
        run, usage = self.count("launcher", program("counted_training", 20))
        self.check_layers(self.check_sums(run, usage), ["conv1", "conv2", "fc1", "fc2", "fc3"])
        phases = {row["phase"]: row for row in self.rows(run, "counters", "--by", "phase")}
        for phase in ("forward", "backward", "update"):
            self.assertGreater(phases[phase]["task_clock"], 0)
        steps = [row for row in self.rows(run, "counters_over_time") if row["index"] is not None]
        self.assertEqual(len(steps), 20)
        self.assertTrue(all(row["task_clock"] > 0 for row in steps))
        # Two workers and the trainer, each a process with its own threads.
        processes = {row["process"] for row in self.rows(run, "counters", "--by", "thread")} - {None}
        self.assertEqual(len(processes), 3)

    def test_tensorflow(self):
        if not os.access(frameworks.TENSORFLOW_PYTHON, os.X_OK):
            self.skipTest("no virtual environment with TensorFlow: run scripts/setup.sh --frameworks")
        argv = [frameworks.TENSORFLOW_PYTHON, *program("keras_cnn", 30)[1:]]
        run, usage = self.count("launcher", argv, KERAS_BACKEND="tensorflow", TF_CPP_MIN_LOG_LEVEL="3")
        layers = self.check_sums(run, usage)
        self.assertTrue([row for row in layers if "conv1" in row["layer"] and row["task_clock"] > 0])

    def test_perf_stat_counts_the_same(self):
        perf = shutil.which("perf")
        told = os.path.join(self.folder, "perf.csv")
        events = "task-clock,page-faults,context-switches"
        if perf is None or e2e.run([perf, "stat", "-e", events, "true"]).code != 0:
            self.skipTest("perf stat does not work here")
        argv = [perf, "stat", "-x,", "-o", told, "-e", events, *program("counted_training", 20)]
        run = self.recorded("preload", argv, DLHOOK_COUNTERS="software")
        with open(told, encoding="utf-8") as file:
            fields = [line.split(",") for line in file if line.count(",") > 3]
        clock, faults, switches = (float(line[0]) for line in fields)
        found = self.sums(self.rows(run, "counters"))
        expected = [clock * 1e6, faults, switches]
        joined = [found[0], found[1] + found[2], found[3] + found[4]]
        # What processes do before their first call and after the last reading is not seen: Python's start and end, and those of
        # two workers, fault and switch much in little time.
        allowed = zip((0.02, 0.1, 0.3), (UNSEEN[0], 3000, 300))
        for counter, a, b, (tolerance, more) in zip(events.split(","), joined, expected, allowed):
            self.assertLessEqual(abs(a - b), tolerance * b + more, f"{counter}: {a}, perf: {b}")


if __name__ == "__main__":
    e2e.main()
