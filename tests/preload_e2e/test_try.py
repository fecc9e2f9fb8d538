"""dlhook try: planted effects of several times are found, whatever the program does against being stopped; nothing is left."""

import os
import signal
import time

import e2e
import trying


class Try(trying.Case):
    command = "try"

    def tried(self, *words, **extra):
        """{variation: its row}, {variation: its sentences}, notes, the answer."""
        tables = self.tables(*words, **extra)
        named = [self.rows_of(table) for table in tables]
        return named[0], named[1] if len(named) > 1 else {}, " ".join(tables[0]["notes"]), tables[0]["title"]

    def test_large_effects_are_found(self):
        two, short = "OMP_NUM_THREADS=2", "ONEDNN_DEFAULT_FPMATH_MODE=BF16"
        rows, sentences, notes, answer = self.tried("--env", two, "--env", short, "--env", "REST_MS=100", "--env", "FAILS=1",
                                                    "--workdir-copy", LOSSES=1, WRITES="checkpoint", SHARES=1, OMP_NUM_THREADS=1)
        self.assertEqual({name: row["outcome"] for name, row in rows.items()},
                         {"none": None, two: "faster", short: "faster", "REST_MS=100": "slower", "FAILS=1": "failed"})
        self.assertGreater(rows[two]["low"], 1)
        self.assertLess(rows["REST_MS=100"]["high"], 1)
        # What computes the same comes first, though it gains less.
        self.assertRegex(answer, f"^{two}: .*; use: {two} {e2e.victim('tried')}; also faster: {short}: .* but it changes numerics")
        self.assertEqual(sentences[two]["command"], f"{two} {e2e.victim('tried')}")
        self.assertIn("printed losses are equal", sentences[two]["cost"])
        self.assertRegex(sentences[short]["cost"], r"^changes numerics: printed losses differ by up to 1\.2 % .*line 1: 20\.25, was 20\.5")
        self.assertIn("ended with code 3: it must fail", sentences["FAILS=1"]["moved"])
        self.assertNotIn("writes", notes)
        self.assertEqual(os.listdir(self.places["work"]), [])  # --workdir-copy

    def test_programs_that_end_without_steps(self):
        """And what two threads make slower; and the processors that a program may use."""
        place, two = f"{min(os.sched_getaffinity(0))}", "OMP_NUM_THREADS=2"
        self.places["tmp"] = os.path.join(self.places["work"], "tmp")
        os.mkdir(self.places["tmp"])  # dlhook's own files in it are none of the program's
        if len(os.sched_getaffinity(0)) < 2:
            self.skipTest("one processor only")
        rows, sentences, notes, _ = self.tried("--env", two, "--pin", place, STEPS=3, SHARES="lock", OMP_NUM_THREADS=1, REST_MS=100,
                                               FAILS="pinned")
        self.assertEqual(rows[two]["outcome"], "slower")
        self.assertIn("of the whole run", notes)
        self.assertNotIn("writes", notes)
        pinned = f"taskset -c {place}"
        self.assertEqual(rows[pinned]["outcome"], "failed")
        self.assertEqual(sentences[pinned]["command"], f"{pinned} {e2e.victim('tried')}")

    def test_what_can_not_be_compared(self):
        argv = self.argv("--env", "REST_MS=2")
        result = e2e.run(argv, env=self.environment_of(FAILS=1), cwd=self.places["work"])
        self.assertEqual((result.code, result.out), (2, b""))
        self.assertIn(b"the program as it is: it ended with code 3: it must fail", result.err)
        for words, complaint in ((["--budget", "soon"], b"--budget expects a time"), (["--env", "REST_MS"], b"--env expects"),
                                 (["--arg", "size=3"], b"--arg expects"), (["--steps", "2"], b"--steps expects"),
                                 (["--pin", "1-"], b"--pin expects")):
            result = e2e.run(self.argv(*words))
            self.assertEqual(result.code, 2)
            self.assertIn(complaint, result.err)
        self.assert_nothing_left()

    def test_large_working_folders_are_not_copied(self):
        with open(os.path.join(self.places["work"], "weights"), "wb") as file:
            file.truncate((2 << 30) + 1)
        result = e2e.run(self.argv("--workdir-copy"), env=self.environment_of(), cwd=self.places["work"])
        self.assertEqual((result.code, result.out), (2, b""))
        self.assertIn(b"--workdir-copy: each run would copy more than ", result.err)
        self.assert_nothing_left()

    def test_what_ignores_signals_forks_prints_and_writes(self):
        result = e2e.run(self.argv("--env", "REST_MS=2", "--budget", "12s"), cwd=self.places["work"],
                         env=self.environment_of(STUBBORN=1, FORKS=1, LOSSES=1, WRITES="checkpoint"))
        self.assertIn(b"writes in its working folder (checkpoint)", result.err)
        self.assertEqual(os.listdir(self.places["work"]), ["checkpoint"])
        self.assert_nothing_left()

    def stopped(self, how):
        self.stopped_when(["--env", "REST_MS=2"], lambda: len(self.processes()) == 3, how, FORKS=1)

    def test_killed(self):
        self.stopped(lambda pid: os.kill(pid, signal.SIGKILL))

    def test_its_worker_is_killed(self):
        self.stopped(self.kill_worker)

    def test_all_of_it_is_killed(self):
        """No process is left to clean up: the program ends with its launcher."""
        process = e2e.start(self.argv("--env", "REST_MS=2"), env=self.environment_of(), cwd=self.places["work"])
        end = time.monotonic() + trying.PATIENCE
        while not self.processes() and time.monotonic() < end:
            time.sleep(0.05)
        self.assertEqual(len(self.processes()), 1)
        process.send_signal(signal.SIGSTOP)
        self.kill_worker(process.pid)
        process.kill()
        process.communicate()
        while self.processes() and time.monotonic() < end:
            time.sleep(0.05)
        self.assertEqual(self.processes(), [])

    def test_ended_politely(self):
        self.stopped(lambda pid: os.kill(pid, signal.SIGTERM))
        self.stopped(lambda pid: os.killpg(pid, signal.SIGINT))


if __name__ == "__main__":
    e2e.main(at_once=4)
