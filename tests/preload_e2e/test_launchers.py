"""Several launchers, and manually preloaded processes, in one run folder: every call is there once, whichever process
drained it."""

import os
import re
import time

import e2e

CALLS = 400


class LaunchersCase(e2e.Case):
    def command_of(self, calls):
        return [e2e.DLHOOK, "run", "-o", self.run_path, "--", "/bin/sh", "-c", f"echo {calls} | {e2e.victim('stepwise')}"]

    def started(self, **extra):
        """A launcher in a process group of its own, whose program has made CALLS calls and waits."""
        env = e2e.clean_environment(**extra)
        process = e2e.start([e2e.DLHOOK, "run", "-o", self.run_path, "--", e2e.victim("stepwise")], env=env)
        self.step(process)
        return process

    def step(self, process, calls=CALLS):
        process.stdin.write(f"{calls}\n".encode())
        process.stdin.flush()
        self.assertEqual(process.stdout.readline(), f"{calls} done\n".encode())

    def end(self, process, calls=CALLS):
        out, error = process.communicate(f"{calls}\n".encode(), timeout=120)
        self.assertEqual((process.returncode, out), (0, f"{calls} done\n".encode()), error)
        return error.decode()

    def check(self, processes, calls):
        run = e2e.Run(self.run_path)
        traces = run.traces()
        self.assertEqual(len({trace.pid for trace in traces}), processes)
        for trace in traces:
            sequences = sorted(call.sequence for call in trace.calls)
            self.assertEqual(sequences, list(range(1, len(sequences) + 1)), "a gap, or a call stands twice")
            self.assert_no_loss(trace)
            self.assertIsNotNone(trace.footer)
        self.assertEqual(sum(len(trace.calls) for trace in traces), calls)
        (row,) = [row for row in run.table("summary") if row["metric"] == "calls"]
        self.assertEqual(row["value"], calls)
        self.assertEqual([name for name in run.files() if name.endswith(".ring")], [])


class Launchers(LaunchersCase):
    def together(self, count):
        self.fresh_run()
        calls = [CALLS + number for number in range(count)]
        lines = " & ".join(" ".join(f"'{word}'" for word in self.command_of(number)) for number in calls)
        result = e2e.run(["/bin/sh", "-c", f"{lines} & wait"])
        self.assertEqual(result.code, 0)
        self.assertEqual(sorted(result.out.split(b"\n"))[1:], sorted(b"%d done" % number for number in calls), result.err)
        error = result.err.decode()
        counts = [int(number) for number in re.findall(r"dlhook: (\d+) calls recorded", error)]
        self.assertEqual(len(counts), count, error)
        self.check(count, sum(calls))

    def test_together(self):
        for count in (2, 4, 16):
            with self.subTest(count=count):
                self.together(count)

    def test_what_each_says(self):
        first, second = self.started(), self.started()
        error = self.end(second, 7)
        self.assertIn(f"{CALLS + 7} calls recorded of the process of this launcher, others share the run", error)
        self.assertNotIn("lost_calls", error)
        self.assertIn(f"{3 * CALLS + 7} calls recorded; next", self.end(first))
        self.check(2, 3 * CALLS + 7)

    def test_one_is_killed_and_its_program_goes_on(self):
        for calls in (CALLS, 30000):
            self.fresh_run()
            launchers = [self.started(DLHOOK_RING_KIB=65536) for _ in range(3)]
            killed = launchers.pop(1)
            killed.kill()
            killed.wait()
            self.step(killed, calls)
            killed.communicate(timeout=60)
            self.end(launchers[0])
            self.end(launchers[1])
            self.check(3, 5 * CALLS + calls)

    def test_apart(self):
        command = " ".join(f"'{word}'" for word in self.command_of(CALLS))
        result = e2e.run(["/bin/sh", "-c", f"{command}; {command}"])  # one process group: one launch
        self.assertEqual(result.code, 0, result.err)
        self.check(2, 2 * CALLS)
        again = e2e.run(["/bin/sh", "-c", f"{command}; {command}"])  # they share the next folder, too
        self.assertEqual(again.code, 0)
        self.assertEqual(again.err.count(b"holds a run already, so this one goes to"), 2)
        self.check(2, 2 * CALLS)
        self.assertEqual(len(e2e.Run(f"{self.run_path}-2").traces()), 2)

    def test_a_job_says_who_belongs_together(self):
        for number in range(2):
            self.end(self.started(SLURM_JOB_ID=17, SLURM_STEP_ID=number // 2))
        self.check(2, 4 * CALLS)

    def test_preloaded_beside_a_launcher(self):
        launcher = self.started()
        env = e2e.clean_environment(LD_PRELOAD=e2e.SHIM, DLHOOK_OUT=self.run_path)
        preloaded = e2e.start([e2e.victim("stepwise")], env=env)
        self.step(preloaded, 3)
        left = e2e.run([e2e.victim("stepwise")], env={**env, "DLHOOK_DRAIN": "none"}, stdin=b"11\n")
        self.assertEqual(left.code, 0)
        self.end(launcher)
        self.end(preloaded, 4)
        self.check(3, 2 * CALLS + 7 + 11)

    def test_a_launcher_that_records_nothing_leaves_a_word(self):
        result = e2e.run([e2e.DLHOOK, "run", "-o", self.run_path, "--", "/bin/true"])
        self.assertEqual(result.code, 0)
        self.assertEqual(os.listdir(self.run_path), ["dlhook.run"])


class Hosts(LaunchersCase):
    """Machines that share a folder, as far as one machine can be several: names, processes and /dev/shm of their own, so that
    process ids may be the same."""

    def setUp(self):
        super().setUp()
        if e2e.run([*self.on("a"), "/bin/true"]).code != 0:
            self.skipTest("unshare: not here")

    def on(self, name):
        others = "/bin/true; " * (ord(name) - ord("a"))  # before it, so that process ids differ
        script = f'{others} hostname {name} && mount -t tmpfs none /dev/shm && exec "$@"'
        return ["unshare", "-u", "-m", "-p", "-f", "--mount-proc", "--kill-child", "/bin/sh", "-c", script, "sh"]

    def started_on(self, name, *command, **extra):
        process = e2e.start([*self.on(name), *command, e2e.victim("stepwise")], env=e2e.clean_environment(**extra))
        self.step(process)
        return process

    def reported(self):
        result = e2e.run([e2e.DLHOOK, "report", self.run_path, "--table", "summary"])
        return " ".join((result.out + result.err).decode().split())

    def test_one_folder(self):
        launched = [self.started_on(name, e2e.DLHOOK, "run", "-o", self.run_path, "--") for name in ("a", "b")]
        preloaded = [self.started_on(name, "env", f"LD_PRELOAD={e2e.SHIM}", DLHOOK_OUT=self.run_path) for name in ("c", "d")]
        error = self.end(launched[0], 7)
        self.assertIn("others share the run", error)
        self.assertEqual(error.count("\n"), 1, error)
        self.step(launched[1], 30000)
        while "its process ran on b, and only there can be read what it had not yet written" not in self.reported():
            time.sleep(0.05)  # its trace has not begun
        for process in (launched[1], *preloaded):
            self.end(process, 7)
        traces = e2e.Run(self.run_path).traces()
        self.assertEqual(len(traces), 4)
        self.assertEqual(len({trace.pid for trace in traces}), 3)  # those without a launcher have the same
        for trace in traces:
            self.assert_no_loss(trace)
        self.assertEqual(sorted(len(trace.calls) for trace in traces), [CALLS + 7] * 3 + [CALLS + 30000 + 7])
        self.assertEqual(sorted(e2e.one(trace.process, "host") for trace in traces), ["a", "b", "c", "d"])

    def test_traces_put_together(self):
        os.mkdir(self.run_path)
        for name in ("a", "b"):
            local = os.path.join(self.folder, name)
            self.end(self.started_on(name, "env", f"LD_PRELOAD={e2e.SHIM}", DLHOOK_OUT=local), 7)
            (trace,) = os.listdir(local)
            os.rename(os.path.join(local, trace), os.path.join(self.run_path, f"{name}-{trace}"))
        run = e2e.Run(self.run_path)
        (row,) = [row for row in run.table("summary") if row["metric"] == "calls"]
        self.assertEqual(row["value"], 2 * (CALLS + 7))


class Renamed(LaunchersCase):
    def test_a_renamed_folder(self):
        process = e2e.start([e2e.DLHOOK, "run", "-o", self.run_path, "--", "/bin/sh", "-c",
                             f"echo {CALLS} | {e2e.victim('stepwise')}; read line; echo 9 | {e2e.victim('stepwise')}"])
        self.assertEqual(process.stdout.readline(), f"{CALLS} done\n".encode())
        moved = self.run_path + "-moved"
        os.rename(self.run_path, moved)
        out, error = process.communicate(b"go on\n", timeout=60)
        self.assertEqual((process.returncode, out), (0, b"9 done\n"), error)
        self.assertIn(f"{CALLS + 9} calls recorded; next: dlhook report {moved} and dlhook report {self.run_path}".encode(), error)
        self.check(1, 9)
        self.run_path = moved
        self.check(1, CALLS)


if __name__ == "__main__":
    e2e.main()
