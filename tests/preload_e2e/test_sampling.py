"""Samples of CPU time (`dlhook run --sample`): they tell where a program computes, and the program behaves as without them,
whatever it does with the signal."""

import collections
import errno
import os
import shutil
import subprocess
import sys
import sysconfig

import e2e

HZ = 500
PYTHON = """
import threading, time
def often():
    for i in range(3000): i * i
def seldom():
    for i in range(1000): i * i
def compute(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        often()
        seldom()
thread = threading.Thread(target=compute, args=(0.3,))
thread.start()
compute(0.6)
thread.join()
"""
ONE_THREAD = PYTHON[: PYTHON.index("thread =")].replace("threading, ", "") + "compute(0.6)"


class Sampled(e2e.Case):
    def sampled(self, host, argv, hz=HZ):
        """The table hotspots by function, under a fresh run: {function: row}, and the table's notes."""
        self.fresh_run()
        result = self.under(host, argv, DLHOOK_SAMPLE=hz)
        self.assertEqual(result.code, 0, result.err)
        return result, self.hotspots()

    def table(self, *options):
        (table,) = e2e.Run(self.run_path).report("--table", *options)["tables"]
        names = [column["name"] for column in table["columns"]]
        return [dict(zip(names, row, strict=True)) for row in table["rows"]], " ".join(table["notes"])

    def hotspots(self, *options):
        rows, notes = self.table("hotspots", *options)
        return {next(iter(row.values())): row for row in rows}, notes

    def capability(self):
        """The states that the last process's trace tells, with their reasons."""
        said = e2e.Run(self.run_path).traces()[-1].capabilities
        return [(e2e.one(one, "state"), e2e.one(one, "reason", "")) for one in said if e2e.one(one, "name") == "samples"]

    def assert_share(self, part, rows, share, others=1e9):
        """Within 5 standard deviations; `others`: samples from which `share` is known. On a busy machine the kernel's
        ticks give fewer samples, which stand for more."""
        samples = sum(row["samples"] for row in rows.values())
        self.assertGreater(samples, 5)
        deviation = (share * (1 - share) * (1 / samples + 1 / others)) ** 0.5
        self.assertAlmostEqual(part, share, delta=5 * deviation, msg=f"{samples} samples")

    def assert_shares(self, rows):
        both = rows["often"]["self_time"] + rows["seldom"]["self_time"]
        self.assert_share(rows["often"]["self_time"] / both, rows, 0.75)
        self.assertGreater(rows["compute"]["total_time"], 0.9 * both)


class Shares(Sampled):
    def test_functions(self):
        for host in e2e.HOSTS:
            with self.subTest(host=host):
                _, (rows, _) = self.sampled(host, [e2e.victim("sampled"), "computes", "800"])
                self.assert_shares(rows)
                self.assertEqual(rows["often"]["library"], "victim_sampled")
                self.assertGreater(sum(row["self_time"] for row in rows.values()), 0.85 * 800e6)
                self.assertEqual(sum(row["in_calls"] for row in rows.values()), 0)
                self.assertEqual(self.capability(), [("ON", "")])
        rows, _ = self.hotspots("--by", "library")
        self.assertEqual(next(iter(rows)), "victim_sampled")
        self.assert_accounted("sampled", "victim_sampled")

    def test_python(self):
        script = os.path.join(self.folder, "computes.py")
        with open(script, "w", encoding="ascii") as file:
            file.write(PYTHON)
        result, (rows, _) = self.sampled("launcher", [sys.executable, script])
        self.assertRegex(result.err.decode(), r"Where a run goes\n(  .*\n)*  Python +\d")  # also without steps
        self.assert_shares(rows)
        self.assertEqual(rows["often"]["library"], "Python")
        self.assertGreater(rows["Thread.run"]["total_time"], 0.2e9)  # frames outside
        rows, _ = self.hotspots("--by", "line")
        self.assertIn("computes.py:4", list(rows)[:2])
        self.assert_accounted("sampled", "Python, computes.py:4")

    def test_python_that_begins_after_its_thread(self):
        """One thread, and no call of a hooked library: only samples come after the interpreter's beginning."""
        for host in e2e.HOSTS:
            with self.subTest(host=host):
                _, (rows, _) = self.sampled(host, [sys.executable, "-c", ONE_THREAD])
                self.assert_shares(rows)
                said = e2e.Run(self.run_path).traces()[-1].capabilities
                (frames,) = [one for one in said if e2e.one(one, "name") == "python-frames"]
                self.assertEqual(e2e.one(frames, "state"), "ON")

    def test_python_in_a_forked_child(self):
        library = os.path.join(*map(sysconfig.get_config_var, ("LIBDIR", "INSTSONAME")))
        if not os.path.exists(library) or ".so" not in library:
            self.skipTest("this Python has no shared library")
        _, (rows, _) = self.sampled("launcher", [e2e.victim("sampled"), "python", library,
                                                   ONE_THREAD.replace("often", "mostly").replace("seldom", "rarely")])
        self.assertEqual({rows[name]["library"] for name in ("mostly", "rarely")}, {"Python"})

    def assert_accounted(self, activity, what):
        """The table accounting names what computed, adds up to the run, and says how much of it nothing did."""
        rows, notes = self.table("accounting")
        told = {(row["activity"], row["what"]): row for row in rows}
        self.assertIn((activity, what), told)
        sampled = sum(row["wall_share"] for (kind, _), row in told.items() if kind == "sampled")
        cpu = sum(row["self_time"] for row in self.hotspots()[0].values())
        self.assertLessEqual(sampled, 1.3 * cpu)  # what is left of the wall time is not computing, however long it was
        wall = sum(row["wall_share"] for row in rows)
        self.assertAlmostEqual(sum(row["percent"] for row in rows), 100, delta=0.01)
        if ("[unattributed]", "not computing") in told:
            self.assertEqual(told["[unattributed]", "not computing"]["wall_share"], wall - sampled)
        self.assertIn("uncertain by about", notes)


class Layers(Sampled):
    """A network that calls nothing that a hook sees."""

    def layers(self, binary, by):
        self.assertEqual(self.under("launcher", [binary, "net", "800"], DLHOOK_SAMPLE=HZ).code, 0)
        rows, notes = self.table("layers", "--by", by)
        return {row[by]: row for row in rows}, notes

    def test_by_its_functions(self):
        rows, notes = self.layers(e2e.victim("sampled"), "module")
        self.assertIn("found in samples", notes)
        told = sum(rows[name]["wall_share"] for name in ("convolutional_layer", "maxpool_layer", "connected_layer"))
        self.assertEqual(rows["convolutional_layer"]["matched_by"], "function")
        functions, _ = self.hotspots()
        for name, phase, share in (("convolutional_layer", "forward", 0.4), ("convolutional_layer", "backward", 0.2),
                                   ("maxpool_layer", "forward", 0.2), ("connected_layer", "forward", 0.2)):
            self.assert_share(rows[name][phase] / told, functions, share)
        rows, _ = self.table("layers", "--by", "function")
        self.assertIn("backward_convolutional_layer", [row["function"] for row in rows])

    def test_without_names(self):
        stripped = os.path.join(self.folder, "stripped")
        subprocess.run(["strip", "-o", stripped, e2e.victim("sampled")], check=True)
        rows, notes = self.layers(stripped, "module")
        self.assertEqual(list(rows), ["[unattributed]"])
        self.assertIn("[stripped], whose functions have no names: the layers that it computed are not known", notes)


class Compiled(Sampled):
    """Code that LLVM makes while a program runs has the names that LLVM tells debuggers."""

    def test_names(self):
        result, (rows, _) = self.sampled("launcher", [e2e.victim("compiled"), "600"])
        self.assertEqual(result.out, b"done\n")
        both = 0
        for name in ("early", "late"):
            self.assertEqual(rows[name]["library"], "[jit]")
            both += rows[name]["self_time"]
        self.assertGreater(both, 0.85 * 1200e6)
        self.assertAlmostEqual(rows["early"]["self_time"] / both, 0.5, delta=0.1)
        self.assertNotIn("spin", rows)


class Witness(Sampled):
    """perf sees the same functions in the same program, which calls them in random order."""

    def by_perf(self, argv):
        perf, data = shutil.which("perf"), os.path.join(self.folder, "perf.data")
        if perf is None:
            self.skipTest("perf is not installed")
        recorded = e2e.run([perf, "record", "-q", "-e", "cpu-clock:u", "-F", "499", "-o", data, *argv])
        if recorded.code != 0:
            self.skipTest("perf is not allowed here: " + recorded.err.decode().strip()[:100])
        names = e2e.run([perf, "script", "-i", data, "-F", "ip,sym"]).out.decode().split()[1::2]
        return collections.Counter(name for name in names if name.endswith("_layer"))

    def test_perf(self):
        argv = [e2e.victim("sampled"), "net", "800"]
        witness = self.by_perf(argv)
        _, (rows, _) = self.sampled("launcher", argv)
        self.assertEqual({name for name in rows if name.endswith("_layer")}, set(witness))
        seen = sum(rows[name]["self_time"] for name in witness)
        known = sum(witness.values())
        for name, count in witness.items():
            self.assert_share(rows[name]["self_time"] / seen, rows, count / known, known)


class Hosts(Sampled):
    """Programs whose signals, threads or children get in the way."""

    def unharmed(self, *mode):
        argv = [e2e.victim("sampled"), *mode]
        plain = e2e.run(argv)
        self.assertEqual(plain.code, 0, plain.out)
        result, (rows, notes) = self.sampled("launcher", argv)
        self.assert_same_behaviour(plain, result, "launcher")
        return rows, notes

    def test_own_handler_and_defaults(self):
        for mode in ("own_handler", "defaults"):
            with self.subTest(mode=mode):
                self.assert_shares(self.unharmed(mode)[0])

    def test_calls_are_not_interrupted(self):
        rows, _ = self.unharmed("waits")  # short bursts keep step with the kernel's ticks: no shares
        self.assertGreater(rows["compute"]["total_time"], 0.5e9)

    def test_blocked_signal(self):
        rows, notes = self.unharmed("blocks")
        self.assertIn("had blocked the signal", notes)
        self.assertGreater(rows["[not known]"]["self_time"], 0.3e9)

    def test_a_stack_pointer_in_the_heap(self):
        rows, _ = self.unharmed("heap_stack")
        self.assertGreater(rows["heap_stack"]["self_time"], 0.3e9)

    def test_threads_that_come_and_go(self):
        self.unharmed("threads", "2000")
        trace = e2e.Run(self.run_path).trace()
        self.assertEqual(len(trace.threads), 2001)
        self.assertEqual(self.capability(), [("ON", "")])

    def test_children(self):
        self.unharmed("forks", "400")
        traces = [trace for trace in e2e.Run(self.run_path).traces() if trace.threads]
        self.assertEqual(len(traces), 3)  # the program, its child, what that became
        rows, _ = self.hotspots()
        self.assertGreater(rows["compute"]["total_time"], 0.6e9)

    def test_more_threads_than_rings(self):
        self.unharmed("crowd", "5000")
        self.assertIn(("LOST", "more threads than rings"), self.capability())

    def test_another_profiler(self):
        self.assert_shares(self.unharmed("profiled", "400")[0])

    def test_in_a_handler(self):
        rows, _ = self.unharmed("in_handler", "100")
        self.assert_shares(rows)
        self.assertGreater(rows["compute_and_jump"]["total_time"], 0.3e9)

    def test_refused_system_calls(self):
        for name, number, is_sampled in (("timer_create", 222, False), ("timer_settime", 223, False),
                                         ("rt_sigaction", 13, False), ("sigaltstack", 131, True),
                                         ("process_vm_readv", 310, True), ("perf_event_open", 298, True)):
            with self.subTest(refused=name):
                argv = [e2e.victim("refused"), str(errno.EPERM), str(number), e2e.victim("sampled"), "computes", "100"]
                plain = e2e.run(argv)
                if plain.code == 77:
                    self.skipTest("no seccomp")
                result, (rows, _) = self.sampled("launcher", argv)
                self.assert_same_behaviour(plain, result, "launcher")
                self.assertEqual("often" in rows, is_sampled)
                state, reason = self.capability()[-1]
                self.assertEqual((state, reason != ""), ("ON", False) if is_sampled else ("LOST", True))

    def test_no_timers_left(self):
        argv = ["prlimit", "--sigpending=0", e2e.victim("sampled"), "computes", "50"]
        result, (rows, _) = self.sampled("launcher", argv)
        self.assertEqual((result.out, rows), (b"done\n", {}))
        self.assertIn("ulimit -i", self.capability()[-1][1])


class Command(e2e.Case):
    def test_values(self):
        for value, words in (("0", "1 to 1000 Hz"), ("1001", "1 to 1000 Hz"), ("x", "a whole number"), ("", "an empty one")):
            result = e2e.run([e2e.DLHOOK, "run", "--sample=" + value, "-o", self.run_path, "--", "true"])
            self.assertEqual(result.code, 2)
            self.assertIn(words, result.err.decode())
        self.assertEqual(e2e.run([e2e.DLHOOK, "run", "--sample", "-o", self.run_path, "--", "true"]).code, 0)

    def test_budget_values(self):
        for value in ("0", "101%", "x", "1%%"):
            result = e2e.run([e2e.DLHOOK, "run", "--budget", value, "-o", self.run_path, "--", "true"])
            self.assertEqual(result.code, 2)
            self.assertIn(f"--budget={value} is not understood, expected off, or a percentage from 0.01% to 100%", result.err.decode())
        program = ["sh", "-c", "echo $DLHOOK_BUDGET"]
        for value, passed_on in (("1%", "1%"), ("0.5", "0.5"), ("0.25%", "0.25%"), ("off", "off")):
            result = e2e.run([e2e.DLHOOK, "run", "--budget", value, "-o", self.run_path, "--", *program])
            self.assertEqual(result.out.decode().split(), [passed_on])

    def test_rows(self):
        e2e.run([e2e.DLHOOK, "run", "--sample", "-o", self.run_path, "--", "true"])
        for options, words in ((["--table", "hotspots", "--by", "type"], "layer, line, function or library"),
                               (["--by", "x"], "expected one of: layer")):
            result = e2e.run([e2e.DLHOOK, "report", self.run_path, *options])
            self.assertEqual(result.code, 2)
            self.assertIn(words, result.err.decode())


if __name__ == "__main__":
    e2e.main()
