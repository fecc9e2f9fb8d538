"""What threads did (table `threads`): the sums against the program's own clocks, and in what threads were blocked against what
they call."""

import json
import sys
import unittest

import e2e

# Threads that each do one thing until told to end; prints what the program's own clocks say.
PROGRAM = """
import ctypes, json, os, resource, select, subprocess, sys, threading, time
numbers = (ctypes.c_float * 4)(1, 2, 3, 4)
gemm = ctypes.CDLL(sys.argv[1]).cblas_sgemm
gemm(101, 111, 111, 2, 2, 2, ctypes.c_float(1), numbers, 2, numbers, 2, ctypes.c_float(0), numbers, 2)
end, has_spun = threading.Event(), threading.Event()
ends, pipe_in = os.pipe()
lock = threading.Lock()
lock.acquire()
def sleeps():
    for i in range(12): time.sleep(0.1)
def spins():
    until = time.thread_time() + 0.6
    while time.thread_time() < until: sum(range(10000))
    has_spun.set()
waits = {"lock": lock.acquire, "poll": lambda: select.select([ends], [], []), "sleep": sleeps, "spin": spins,
         "read or write": lambda: os.read(pipe_in_2[0], 1), "child": lambda: subprocess.call(["sleep", "1"])}
pipe_in_2 = os.pipe()
told = {}
def run(name, wait):
    ctypes.CDLL(None).prctl(15, name.encode(), 0, 0, 0)  # PR_SET_NAME
    began = time.monotonic()
    wait()
    end.wait(10)
    told[name] = (threading.get_native_id(), time.thread_time(), time.monotonic() - began)
threads = [threading.Thread(target=run, args=item, name=item[0]) for item in waits.items()]
for thread in threads: thread.start()
time.sleep(0.8)
frames = sys._current_frames()
places = {thread.name: (frames[thread.ident].f_code.co_name, frames[thread.ident].f_lineno) for thread in threads}
time.sleep(0.5)
has_spun.wait()
lock.release()
os.write(pipe_in, b"x")
os.write(pipe_in_2[1], b"x")
time.sleep(0.3)  # all wait for `end`, and are looked at
end.set()
for thread in threads: thread.join()
usage = resource.getrusage(resource.RUSAGE_SELF)
told["main"] = (os.getpid(), time.thread_time(), time.clock_gettime(time.CLOCK_BOOTTIME) -
                int(open("/proc/self/stat").read().rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK"))
told["process"] = usage.ru_utime + usage.ru_stime
print(json.dumps([told, places]))
"""

TICK = 0.05  # s: the kernel's sums of a running thread are as old as its last tick, or as the look
IDLE = 0.5   # s: threads that do nothing are looked at less often, so how they ended is seen late


class ThreadsWait(e2e.Case):
    def told(self, host, **extra):
        self.fresh_run()
        result = self.under(host, [sys.executable, "-c", PROGRAM, e2e.library("tiny_blas")], **extra)
        self.assertEqual(result.code, 0, result.err)
        rows = e2e.Run(self.run_path).table("threads")
        told, self.places = json.loads(result.out)
        return told, [row for row in rows if row["step"] == "whole run"]

    def test_sums_and_places(self):
        told, rows = self.told("launcher")
        by_tid = {row["tid"]: row for row in rows}
        process = told.pop("process")
        running = sum(row["running"] for row in rows) / 1e9
        self.assertAlmostEqual(running, process, delta=0.02 * process + TICK)
        for name, (tid, cpu, wall) in told.items():
            row = by_tid[tid]
            with self.subTest(name, row=row):
                self.assertEqual(row["running"] + row["no_processor"] + row["blocked"], row["time"])
                self.assertAlmostEqual(row["running"] / 1e9, cpu, delta=0.02 * cpu + TICK)
                self.assertLess(row["time"] / 1e9, wall + TICK)
                self.assertGreater(row["time"] / 1e9, 0.98 * wall - IDLE)
                if name != "main":
                    self.assertEqual(row["thread"], f"{name} tid {tid}")  # it makes no recorded calls
                if name not in ("main", "spin"):
                    self.assertIn(name, row["blocked_in"])

    @unittest.skipIf(sys.version_info < (3, 11), "threads that never computed are found from CPython 3.11 on")
    def test_places_by_stack(self):
        """Against what the program's own sys._current_frames() says."""
        _, rows = self.told("launcher", DLHOOK_SAMPLE=99)
        run = e2e.Run(self.run_path)
        by_stack = run.table("threads", "--by", "stack")
        for name, (function, line) in self.places.items():
            if name == "spin":  # may be computing
                continue
            with self.subTest(name):
                found = [row for row in by_stack if f"{function} (" in row["stack"] and f":{line})" in row["stack"]
                         and row["blocked_in"] == name]
                self.assertGreater(sum(row["blocked"] for row in found), 0.3e9, [row["stack"] for row in by_stack])
        blocked = sum(row["blocked"] or 0 for row in rows)
        for by in ("stack", "function", "line"):
            placed = sum(row["blocked"] for row in run.table("threads", "--by", by))
            self.assertLess(placed, 1.02 * blocked)
            self.assertGreater(placed, 0.7 * blocked)  # neither before the first look nor after the last
        lines = {row["line"]: row["blocked_in"] for row in run.table("threads", "--by", "line")}
        self.assertIn("sleep", lines.values())

    def test_without_launcher(self):
        self.fresh_run()
        self.under("writer", [sys.executable, "-c", "import ctypes, sys; ctypes.CDLL(sys.argv[1]).cblas_sgemm(*[0] * 14)",
                              e2e.library("tiny_blas")])
        table, = e2e.Run(self.run_path).report("--table", "threads")["tables"]
        self.assertEqual(table["rows"], [])
        self.assertIn("dlhook run", table["notes"][0])


if __name__ == "__main__":
    e2e.main()
