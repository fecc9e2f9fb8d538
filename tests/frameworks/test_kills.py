"""SIGKILL at random moments over NumPy, PyTorch and TensorFlow, under both hosts: no committed record is lost.

The witness: each worker counts its finished steps in a file mapping that outlives it. Every step makes the same calls
and scopes (complete runs show how many), and all of a step's records are committed before the step is counted. So a
trace must contain, in each of its threads without a gap, at least those of the counted steps and less than those of one
more step.

The third kill of every three in a batch comes at any time between the process's start and its steps, the others during
the steps.

    test_kills.py [--kills N] [--spawned PERCENT] [--seed SEED]   (15, 20, random)

PERCENT of the workers are programs of their own; the others are forked from a process that has imported the framework,
so that a kill costs milliseconds rather than an import. In either case the framework's own threads and all of dlhook's
state are the worker's.
"""

import argparse
import collections
import mmap
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

import frameworks
import scopes
from frameworks import e2e

TENSORFLOW_PYTHON = os.environ.get("DLHOOK_TEST_TENSORFLOW_PYTHON", "")
PYTHONS = {"numpy": frameworks.PYTHON, "torch": frameworks.PYTHON, "tensorflow": TENSORFLOW_PYTHON}
# Shares of all kills: NumPy's are cheap, and TensorFlow's records come from two taps on its own threads.
SHARES = {"numpy": 0.4, "torch": 0.4, "tensorflow": 0.2}
# Rings large enough for the backlog on a busy machine: this test is about commits, not about the drain's speed.
ENVIRONMENT = {"DLHOOK_RING_KIB": 65536, "OMP_NUM_THREADS": 1, "TF_CPP_MIN_LOG_LEVEL": 3}
BATCH = 20  # kills into one run folder

Records = collections.namedtuple("Records", "calls scopes")
# TensorFlow's scopes that have ended when their step does: those of nodes. Its housekeeping, also on other threads, may
# end later.
COUNTED_SCOPES = {"tensorflow": re.compile(r"\w+:\w+")}


class Workers:
    """A supervisor of workers, and the numbers that they leave behind."""

    def __init__(self, case, framework, host, way):
        path = os.path.join(case.folder, "counters")
        with open(path, "w+b") as file:
            file.truncate(16 * (BATCH + 1))
            self.numbers = memoryview(mmap.mmap(file.fileno(), 0)).cast("q")
        argv = [PYTHONS[framework], os.path.join(frameworks.HERE, "programs", "killed_worker.py"), framework, path, way]
        case.fresh_run()
        self.errors = tempfile.TemporaryFile()
        environment = case.environment(host, **ENVIRONMENT)
        self.process = subprocess.Popen(case.command(host, argv), env=environment, cwd=case.folder, stderr=self.errors,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)

    def begin(self, slot, steps):
        self.process.stdin.write(f"{slot} {steps}\n".encode())
        self.process.stdin.flush()

    def ended(self):
        line = self.process.stdout.readline()
        if line != b"ended\n":
            self.errors.seek(0)
            raise AssertionError(f"the supervisor said {line!r}; {self.errors.read()[-2000:]!r}")

    def wait_for(self, condition):
        deadline = time.monotonic() + 300
        while not condition():
            if time.monotonic() > deadline or self.process.poll() is not None:
                self.errors.seek(0)
                raise AssertionError(f"the worker does not get there; {self.errors.read()[-2000:]!r}")
            time.sleep(0.0005)

    def pid(self, slot):
        return self.numbers[2 * slot]

    def steps(self, slot):
        return self.numbers[2 * slot + 1]

    def close(self):
        self.process.stdin.close()
        code = self.process.wait(900)
        self.process.stdout.close()
        self.errors.close()
        return code


class Kills(e2e.Case):
    options = None

    def records(self, framework, trace):
        counted = COUNTED_SCOPES.get(framework, re.compile(""))
        calls = sum(1 for call in trace.calls if not frameworks.is_numpys_import(call))
        return Records(calls, sum(1 for scope in trace.scopes if counted.match(scope.name)))

    def traces_by_pid(self):
        """Without those of workers that were killed between creating the file and linking their rings: nothing is
        committed by then."""
        run = e2e.Run(self.run_path)
        if not os.path.isdir(self.run_path):  # no first record was made
            return {}
        for name in run.files():
            path = os.path.join(self.run_path, name)
            if name.endswith(".dlh") and os.path.getsize(path) == 0 and not os.path.islink(path[:-len("dlh")] + "ring"):
                os.remove(path)
        return {trace.pid: trace for trace in run.traces(scopes.ScopeTrace)}

    def undisturbed(self, framework):
        """Records of the first step and of each later step, from two complete runs."""
        workers = Workers(self, framework, "writer", "fork")
        for slot, steps in enumerate((4, 14)):
            workers.begin(slot, steps)
            workers.ended()
        workers.close()
        traces = self.traces_by_pid()
        few, many = (self.records(framework, traces[workers.pid(slot)]) for slot in (0, 1))
        step = Records(*((b - a) // 10 for a, b in zip(few, many)))
        first = Records(*(a - 3 * s for a, s in zip(few, step)))
        self.assertEqual(many, Records(*(f + 13 * s for f, s in zip(first, step))), "steps differ from each other")
        return first, step

    def check(self, framework, trace, steps, first, step):
        self.assertLessEqual(trace.loss_reasons(), {"RING_FULL"})
        by_thread = collections.defaultdict(list)
        for call in trace.calls:
            by_thread[call.thread_id].append(call.sequence)
        for sequences in by_thread.values():
            self.assertEqual(len(set(sequences)), len(sequences), "a call stands twice")
            if not trace.losses:
                self.assertEqual(sorted(sequences), list(range(1, len(sequences) + 1)), "a gap")
        lost = trace.known_count() - len(trace.calls)
        for name, got, of_first, of_step in zip(Records._fields, self.records(framework, trace), first, step):
            least = of_first + (steps - 1) * of_step if steps else 0
            most = of_first + steps * of_step
            self.assertGreaterEqual(got + lost, least, f"{name} after {steps} steps")
            self.assertLessEqual(got, most, f"{name} after {steps} steps")
        return lost

    def kill(self, workers, slot, chance, start_up):
        """`start_up`: how long it took the last worker from its start to its first step."""
        workers.begin(slot, 0)
        workers.wait_for(lambda: workers.pid(slot))
        began = time.monotonic()
        if slot % 3 == 2:  # before its first step, perhaps before its first record
            time.sleep(chance.uniform(0, start_up))
        else:
            workers.wait_for(lambda: workers.steps(slot))
            start_up = time.monotonic() - began
            time.sleep(chance.uniform(0, 0.02))
        os.kill(workers.pid(slot), signal.SIGKILL)
        workers.ended()
        return start_up

    def batch(self, framework, host, way, kills, chance, expected):
        workers = Workers(self, framework, host, way)
        start_up = 0.05
        for slot in range(kills):
            start_up = self.kill(workers, slot, chance, start_up)
        workers.close()
        traces = self.traces_by_pid()
        total = collections.Counter()
        for slot in range(kills):
            steps = workers.steps(slot)
            trace = traces.pop(workers.pid(slot), None)
            if trace is None:
                self.assertEqual(steps, 0, "no trace")
                total["before the first record"] += 1
                continue
            with self.subTest(seed=self.options.seed, framework=framework, host=host, way=way, slot=slot):
                total["lost, counted"] += self.check(framework, trace, steps, *expected)
            total["steps"] += steps
            total["calls"] += len(trace.calls)
            total["scopes"] += len(trace.scopes)
        self.assertEqual([trace.pid for trace in traces.values() if frameworks.computes(trace)], [])
        self.assertEqual([name for name in e2e.Run(self.run_path).files() if name.endswith(".ring")], [])
        return total

    def kills_of(self, framework, kills):
        if not os.access(PYTHONS[framework], os.X_OK):
            self.skipTest(frameworks.MISSING)
        chance = random.Random(f"{self.options.seed} {framework}")
        expected = self.undisturbed(framework)
        total = collections.Counter()
        spawned = round(kills * self.options.spawned / 100)
        for way, count in (("spawn", spawned), ("fork", kills - spawned)):
            for start in range(0, count, BATCH):
                size = min(BATCH, count - start)
                halves = {"launcher": size // 2, "writer": size - size // 2}
                for host, part in halves.items():
                    if part:
                        total += self.batch(framework, host, way, part, chance, expected)
                        total[f"{way} under {host}"] += part
        self.assertGreaterEqual(total["steps"], kills * 2 // 3, "hardly any step was made: the test proves nothing")
        print(f"{framework}: seed {self.options.seed}, {kills} kills: {dict(total)}", file=sys.stderr)

    def test_numpy(self):
        self.kills_of("numpy", round(self.options.kills * SHARES["numpy"]))

    def test_torch(self):
        self.kills_of("torch", round(self.options.kills * SHARES["torch"]))

    def test_tensorflow(self):
        self.kills_of("tensorflow", round(self.options.kills * SHARES["tensorflow"]))


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=15)
    parser.add_argument("--spawned", type=float, default=20)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    return parser.parse_known_args()


if __name__ == "__main__":
    Kills.options, sys.argv[1:] = parse()
    e2e.main()
