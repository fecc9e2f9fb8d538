"""dlhook replay: the problems of a training are those that its shapes say, oneDNN's own log names what is chosen, and nothing is left."""

import json
import os
import shutil
import signal
import sys
import time

import frameworks
import numpy
from frameworks import FIELDS, e2e, log_lines, program

STEPS = 6
CONVOLUTIONS = "convolution", "deconvolution"
PATIENCE = 60  # seconds until a test gives up waiting for what must come
CONV1 = "mb4_ic3oc16_ih32oh32kh3sh1dh0ph1_iw32ow32kw3sw1dw0pw1"
UP = "mb4_ic32oc8_ih15oh32kh3sh2dh0ph0_iw15ow32kw3sw2dw0pw0"
CONV2 = "mb4_ic16oc32_ih32oh15kh3sh2dh0ph0_iw32ow15kw3sw2dw0pw0"
# Of programs/replayed.py: the first convolution's input needs no gradient. Linear: batch 4, from 768 to 10, column-major.
PROBLEMS = {("convolution", "forward", CONV1), ("convolution", "backward-weights", CONV1), ("convolution", "forward", CONV2),
            ("convolution", "backward-data", CONV2), ("convolution", "backward-weights", CONV2),
            ("deconvolution", "forward", UP), ("deconvolution", "backward-data", UP), ("deconvolution", "backward-weights", UP),
            ("gemm", "unknown", "m10 n4 k768 TN f32"), ("gemm", "unknown", "m768 n4 k10 NN f32"),
            ("gemm", "unknown", "m768 n10 k4 NT f32")}


def rows(table):
    names = [column["name"] for column in table["columns"]]
    return [dict(zip(names, row, strict=True)) for row in table["rows"]]


def key(row):
    return row["kind"], row["direction"], row["problem"]


class Replay(frameworks.Case):
    def implementations(self, memory_format):
        """{(primitive, direction, problem): implementation} of its convolutions, by oneDNN's log without dlhook."""
        output = self.plain(program("replayed", memory_format, STEPS), ONEDNN_VERBOSE="1", OMP_NUM_THREADS="1").out
        found = {}
        for line in log_lines(output):
            named = dict(zip(FIELDS, line))
            if named["operation"] == "exec" and named["primitive"] in CONVOLUTIONS:
                direction = named["prop_kind"].replace("forward_training", "forward").replace("_", "-")
                found[named["primitive"], direction, named["problem"]] = named["implementation"]
        return found

    def record(self):
        self.recorded("launcher", program("replayed", "channels_last", STEPS), OMP_NUM_THREADS="1")
        return self.run_path

    def test_problems_and_choices(self):
        result = e2e.run([e2e.DLHOOK, "replay", "--format", "json", "--top", "100", "--budget", "25s", self.record()])
        self.assertEqual(result.code, 0, result.err)
        self.assertIn(b"replay: starting ", result.err.splitlines()[0])
        tables = {table["name"]: table for table in json.loads(result.out)["tables"]}
        for note in "another machine", "The run had":
            self.assertNotIn(note, " ".join(tables["replay"]["notes"]))
        replayed = [row for row in rows(tables["replay"]) if row["kind"] != "reorder"]
        self.assertEqual({key(row) for row in replayed}, PROBLEMS)
        self.assertEqual(len(replayed), len(PROBLEMS))
        self.assertEqual({key(row): row["chosen"] for row in replayed if row["kind"] in CONVOLUTIONS},
                         self.implementations("channels_last"))
        self.assertNotIn(": alone ", " ".join(tables["replay"]["notes"]))
        variants = [row for row in rows(tables["variants"]) if row["variant"] == "contiguous" and row["kind"] in CONVOLUTIONS]
        self.assertEqual({key(row): row["implementation"] for row in variants}, self.implementations("contiguous"))
        reasons = {(row["layers"], row["kind"]): row["not_replayed"] for row in rows(tables["not_replayed"])}
        self.assertEqual(reasons["lstm", "rnn"], "not replayed, because there is no replay of the op rnn")

    def test_another_number_of_processors(self):
        processors = sorted(os.sched_getaffinity(0))
        if len(processors) < 2:
            self.skipTest("one processor only")
        command = ["taskset", "-c", str(processors[0]), e2e.DLHOOK, "replay", "--format", "json", "--budget", "10s", "--top", "2"]
        result = e2e.run([*command, self.record()])
        self.assertEqual(result.code, 0, result.err)
        table = json.loads(result.out)["tables"][0]
        self.assertRegex(table["notes"][0], f"another machine: .*, {len(processors)} processors; here .*, 1;")
        self.assertEqual({(row["in_run"], row["share"], row["gain"]) for row in rows(table)}, {(None, None, None)})
        self.assertTrue(all(row["alone"] for row in rows(table)), rows(table))

    def test_another_number_of_threads(self):
        if len(os.sched_getaffinity(0)) < 2:
            self.skipTest("one processor only")
        command = [e2e.DLHOOK, "replay", "--format", "json", "--budget", "6s", "--problem", CONV2, "--threads", "2"]
        result = e2e.run([*command, self.record()])
        table = json.loads(result.out)["tables"][0]
        self.assertIn("another number of threads: 1; here 2;", table["notes"][0])
        self.assertEqual({(row["in_run"], row["share"], row["gain"]) for row in rows(table)}, {(None, None, None)})

    def test_another_release(self):
        other = f"{self.folder}/python"
        with open(other, "w") as file:
            file.write(f"#!/bin/sh\nexec {program('replayed')[0]} $1 $2 \"import torch; torch.__version__ = '1.13.1+cpu'\n$3\" $4 $5\n")
        os.chmod(other, 0o700)
        result = e2e.run([e2e.DLHOOK, "replay", "--budget", "4s", "--problem", CONV2, "--python", other, self.record()])
        self.assertRegex(b" ".join(result.out.split()), rb"The run had torch 2\.\d+: .* Computed by torch 1\.13\.1")

    def test_settings_that_a_parent_sets(self):
        argv = program("replayed", "contiguous", STEPS)
        parent = ("import os, subprocess, sys, numpy\n"
                  "numpy.ones((50, 50)) @ numpy.ones((50, 50))\n"
                  "os.environ['ONEDNN_MAX_CPU_ISA'] = 'SSE41'\n"
                  "sys.exit(subprocess.call(sys.argv[1:]))")
        self.recorded("launcher", [argv[0], "-c", parent, *argv], OMP_NUM_THREADS="1")
        result = e2e.run([e2e.DLHOOK, "replay", "--format", "json", "--budget", "6s", "--problem", CONV2, self.run_path])
        self.assertEqual(result.code, 0, result.err)
        table = json.loads(result.out)["tables"][0]
        self.assertTrue(any("sse41" in row["chosen"] for row in rows(table)), rows(table))
        self.assertNotIn(": alone ", " ".join(table["notes"]))

    def test_numpy(self):
        self.recorded("launcher", program("numpy_products", STEPS), OMP_NUM_THREADS="1")
        result = e2e.run([e2e.DLHOOK, "replay", "--format", "json", "--budget", "10s", "--top", "100", self.run_path])
        self.assertEqual(result.code, 0, result.err)
        tables = {table["name"]: table for table in json.loads(result.out)["tables"]}
        self.assertIn("Computed by numpy ", " ".join(tables["replay"]["notes"]))
        products = {row["problem"].removesuffix(" row-major") for row in rows(tables["replay"]) if row["kind"] == "gemm"}
        self.assertEqual(products - {"m20 n20 k20 NN f64"},  # of its import
                         {"m20 n40 k30 NN f32", "m21 n41 k31 NN f64", "m20 n25 k30 TN f64", "m9 n9 k5 NT f64"})
        reasons = {row["problem"]: row["not_replayed"] for row in rows(tables["not_replayed"]) if row["kind"] == "gemm"}
        self.assertEqual(reasons, {"m3 n5 k4 NN c64 row-major": "not replayed, because of its types: c64"})

    def test_a_python_that_others_may_write(self):
        """It is not started, and neither is a module of the working folder imported."""
        packages, python = f"{self.folder}/env/lib/python3.11/site-packages", f"{self.folder}/env/bin/python3"
        for name in "numpy", "numpy.libs":
            shutil.copytree(os.path.join(os.path.dirname(os.path.dirname(numpy.__file__)), name), os.path.join(packages, name))
        os.mkdir(os.path.dirname(python))
        with open(python, "w") as file:
            file.write(f"#!/bin/sh\ntouch {self.folder}/started\n")
        with open(f"{self.folder}/tempfile.py", "w") as file:
            file.write("raise ValueError('of the working folder')\n")
        os.chmod(python, 0o777)
        self.recorded("launcher", program("numpy_products", STEPS), OMP_NUM_THREADS="1", PYTHONPATH=packages)
        command = [e2e.DLHOOK, "replay", "--format", "json", "--budget", "4s", "--top", "1", self.run_path]
        path = os.path.dirname(sys.executable) + ":" + os.environ["PATH"]
        env = e2e.clean_environment(PATH=path, PYTHONPATH=":" + os.path.dirname(os.path.dirname(numpy.__file__)))
        result = e2e.run(command, env=env, cwd=self.folder)
        self.assertIn(f"starting python3 of the PATH, not the run's {python}: others may write it".encode(), result.err)
        self.assertFalse(os.path.exists(f"{self.folder}/started"))
        self.assertIn(b"Computed by numpy ", result.out, result.err)

    def children(self):
        found = []
        for pid in filter(str.isdecimal, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    if f"REPLAY_MARK={self.folder}".encode() in file.read().split(b"\0"):
                        found.append(int(pid))
            except OSError:  # it has ended
                pass
        return found

    def test_nothing_is_left(self):
        argv = [e2e.DLHOOK, "replay", self.record()]
        for how in (signal.SIGKILL, signal.SIGTERM):
            process = e2e.start(argv, env=e2e.clean_environment(REPLAY_MARK=self.folder))
            end = time.monotonic() + PATIENCE
            while len(self.children()) < 3 and time.monotonic() < end:  # it, its worker, a Python
                time.sleep(0.05)
            self.assertGreaterEqual(len(self.children()), 3)
            process.send_signal(how)
            process.communicate()
            while self.children() and time.monotonic() < end:
                time.sleep(0.05)
            self.assertEqual(self.children(), [])

    def test_what_can_not_be_replayed(self):
        folder = self.record()
        for words, complaint in ((["--budget", "soon"], b"--budget expects a time"), (["--top", "0"], b"--top expects a number"),
                                 (["--threads", "100000"], b"this process may use "),
                                 (["--problem", "no such"], b"contains 'no such'")):
            result = e2e.run([e2e.DLHOOK, "replay", *words, folder])
            self.assertEqual(result.code, 2)
            self.assertIn(complaint, result.err)
        result = e2e.run([e2e.DLHOOK, "replay", "--python", "/none/python", "--problem", "ic3oc16", folder])
        self.assertEqual(result.code, 2)
        self.assertIn(b"nothing could be replayed", result.out)
        self.assertIn(b"/none/python: not a Python with torch: ", b" ".join(result.out.split()))


if __name__ == "__main__":
    e2e.main()
