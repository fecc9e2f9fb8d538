#!/usr/bin/env python3
"""Traces of torch.profiler. Witnesses: a program that records itself, and what TraceLens computed of traces of real GPUs (../shared
beside the repository; without it these tests are skipped)."""

import collections
import csv
import glob
import os
import sqlite3

import frameworks
from frameworks import e2e, program

DATA = os.path.join(frameworks.HERE, "..", "..", "..", "shared", "data", "kineto")
# In the order of their first run.
LAYERS = ["Conv2d_0", "BatchNorm2d_0", "Linear_0", "Block_0.Linear_1", "Block_0.GELU_0", "Block_0.Linear_2", "Linear_3"]


class Recorded(frameworks.Case):
    """A training on the CPU."""

    @classmethod
    def setUpClass(cls):
        cls.kept = {}

    def trace(self):
        path = os.path.join(self.folder, "trace.json")
        if not self.kept:
            result = e2e.run(program("profiled_training", path), env=e2e.clean_environment(OMP_NUM_THREADS=1), cwd=self.folder)
            self.assertEqual(result.code, 0, result.err.decode()[-2000:])
            with open(path, "rb") as file:
                self.kept["bytes"] = file.read()
        with open(path, "wb") as file:
            file.write(self.kept["bytes"])
        return path

    def test_layers_by_name_and_order(self):
        rows = e2e.Run(self.trace()).table("layers", "--sort", "program")
        names = [row["layer"] for row in rows if row["layer"] in LAYERS]
        self.assertEqual(names, LAYERS)
        of_products = {row["layer"]: row for row in rows if row["layer"].rpartition(".")[2].startswith(("Linear", "Conv"))}
        for name, row in of_products.items():
            self.assertGreater(row["forward"], 0, name)
            self.assertGreater(row["backward"], 0, name)

    def test_products_and_steps(self):
        run = e2e.Run(self.trace())
        shapes = {(row["m"], row["n"], row["k"]): row["calls"] for row in run.table("gemm")}
        for shape in ((16, 64, 2048), (16, 128, 64), (16, 64, 128), (16, 10, 64)):  # forward
            self.assertGreaterEqual(shapes.get(shape, 0), 5, shapes)
        (convolution,) = [row for row in run.table("convolutions") if row["direction"] == "forward"]
        self.assertEqual(convolution["problem"], "mb16_ic3oc8_ih16oh16kh3sh1dh0ph1_iw16ow16kw3sw1dw0pw1")
        self.assertEqual({row["kind"] for row in run.table("steps")}, {"training"})

    def test_import(self):
        """A run of dlhook's own says the same."""
        trace = self.trace()
        result = e2e.run([e2e.DLHOOK, "import", trace, "-o", self.run_path])
        self.assertEqual(result.code, 0, result.err.decode())
        self.assertEqual(len(glob.glob(os.path.join(self.run_path, "*.dlh"))), 1)
        self.assertEqual(e2e.Run(self.run_path).table("ops"), e2e.Run(trace).table("ops"))
        again = e2e.run([e2e.DLHOOK, "import", trace, "-o", self.run_path])
        self.assertEqual(again.code, 2)
        self.assertIn(b"holds a run already", again.err)

    def test_bad_files(self):
        path = os.path.join(self.folder, "none.json")
        with open(path, "w", encoding="utf-8") as file:
            file.write('{"a": 1}')
        for command in (["report", path], ["import", path, "-o", self.run_path], ["dump", path]):
            result = e2e.run([e2e.DLHOOK, *command])
            self.assertEqual(result.code, 2, command)
            self.assertIn(b'no list "traceEvents"; expected the JSON trace of torch.profiler', result.err)
        self.assertFalse(os.path.exists(self.run_path))


@e2e.unittest.skipUnless(os.path.isdir(DATA), "no ../shared/data/kineto beside the repository")
class RealGpus(frameworks.Case):
    """Traces that others recorded."""

    def activities(self, name):
        database = os.path.join(self.folder, "run.db")
        trace = os.path.join(DATA, name)
        result = e2e.run([e2e.DLHOOK, "export", trace, "--format", "sqlite", "--out", database])
        self.assertEqual(result.code, 0, result.err.decode())
        with sqlite3.connect(database) as tables:
            return list(tables.execute("SELECT kind, kernel, start_ns, end_ns, launch_call_id FROM raw_gpu_activities "
                                       "ORDER BY start_ns"))

    def check(self, model):
        activities = self.activities(f"{model}_inference.json.gz")
        sums, counts = collections.Counter(), collections.Counter()
        for kind, kernel, start, end, _ in activities:
            if kind == "kernel":
                sums[kernel] += end - start
                counts[kernel] += 1
        told, told_counts = collections.Counter(), collections.Counter()
        with open(os.path.join(DATA, f"{model}.tracelens.kernel_summary.csv"), encoding="utf-8") as file:
            for row in csv.DictReader(file):
                told[row["Kernel name"]] += round(float(row["Kernel duration (µs)_sum"]) * 1000)
                told_counts[row["Kernel name"]] += int(row["Kernel duration (µs)_count"])
        self.assertEqual(sums, told)
        self.assertEqual(counts, told_counts)
        busy, until = 0, 0
        for _, _, start, end, launch in activities:
            if launch is None:  # launched before the profiler's window; TraceLens leaves it out
                continue
            busy += max(0, end - max(start, until))
            until = max(until, end)
        with open(os.path.join(DATA, f"{model}.tracelens.gpu_timeline.csv"), encoding="utf-8") as file:
            timeline = {row["type"]: float(row["time ms"]) * 1e6 for row in csv.DictReader(file)}
        self.assertAlmostEqual(busy, timeline["busy_time"], delta=0.01 * timeline["busy_time"])

        self.check_products(model)

    def check_products(self, model):
        """GPU time and calls by shape."""
        found, told = collections.defaultdict(lambda: [0, 0]), collections.defaultdict(lambda: [0, 0])
        for row in e2e.Run(os.path.join(DATA, f"{model}_inference.json.gz")).table("gemm"):
            sums = found[row["m"], row["n"], row["k"], row["batch"]]
            sums[0] += row["calls"]
            sums[1] += row["gpu_time"]
        with open(os.path.join(DATA, f"{model}.tracelens.GEMM.csv"), encoding="utf-8") as file:
            for row in csv.DictReader(file):
                sizes = [int(float(row[f"param: {name}"] or 1)) for name in ("M", "N", "K", "B")]
                told[tuple(sizes)][0] += int(row["name_count"])
                told[tuple(sizes)][1] += float(row["Kernel Time (µs)_sum"]) * 1000
        self.assertEqual(sorted(found), sorted(told))
        for sizes, (calls, time) in told.items():
            self.assertEqual(found[sizes][0], calls, sizes)
            self.assertAlmostEqual(found[sizes][1], time, delta=0.01 * time, msg=sizes)

    def test_bert(self):
        self.check("h100_bert-small")

    def test_qwen(self):
        self.check("h100_qwen1.5-0.5b")

    def test_timesformer(self):
        self.check("h100_timesformer")

    def test_all_can_be_reported(self):
        for trace in sorted(glob.glob(os.path.join(DATA, "*.json.gz"))):
            result = e2e.run([e2e.DLHOOK, "report", trace])
            self.assertEqual(result.code, 0, trace)
            self.assertIn(b" step takes" if b" step takes" in result.out else b"A request takes", result.out, trace)

    def report(self, name):
        result = e2e.run([e2e.DLHOOK, "report", os.path.join(DATA, f"{name}.json.gz")])
        self.assertEqual(result.code, 0, result.err.decode())
        return " ".join(result.out.decode().split())

    def test_repeated_blocks_are_one_row(self):
        """The heaviest work of the network comes first: 24 softmaxes."""
        self.assertRegex(self.report("h100_timesformer_inference"), r"GPU time \S+:softmax x24 68\.8 ms - 68\.8 ms")

    def test_ranks_of_a_job(self):
        ranks = sorted(glob.glob(os.path.join(DATA, "hta_sampled_rank-*.json.gz")))
        result = e2e.run([e2e.DLHOOK, "report", *ranks, "--table", "devices", "--format", "csv"])
        self.assertEqual(result.code, 0, result.err.decode())
        self.assertEqual([line.split(b",")[0] for line in result.out.splitlines()[1:]], [b"0", b"1"])

    def test_traces_of_several_jobs(self):
        result = e2e.run([e2e.DLHOOK, "report", DATA])
        self.assertEqual(result.code, 2)
        self.assertIn(b"are not known to be of one job", result.err)


if __name__ == "__main__":
    e2e.main()
