"""dlhook try: planted effects of several times are found, whatever the program does against being stopped; nothing is left."""

import json
import os
import signal
import time

import e2e

PATIENCE = 120  # seconds until a test gives up waiting for what must come


class Try(e2e.Case):
    def setUp(self):
        super().setUp()
        self.places = {}
        for name in ("work", "tmp"):
            self.places[name] = os.path.join(self.folder, name)
            os.mkdir(self.places[name])
        self.mark = f"TRY_MARK={self.folder}"

    def environment_of(self, **extra):
        return e2e.clean_environment(TMPDIR=self.places["tmp"], TRY_MARK=self.folder, REST_MS=20, **extra)

    def argv(self, *words):
        return [e2e.DLHOOK, "try", "--format", "json", *words, "--", e2e.victim("tried")]

    def tried(self, *words, **extra):
        """{variation: its row}, {variation: its sentences}, notes, the answer."""
        result = e2e.run(self.argv(*words), env=self.environment_of(**extra), cwd=self.places["work"])
        self.assertEqual(result.code, 0, result.err)
        self.assert_nothing_left()
        tables = json.loads(result.out)["tables"]
        named = []
        for table in tables:
            names = [column["name"] for column in table["columns"]]
            named.append({row[0]: dict(zip(names, row, strict=True)) for row in table["rows"]})
        return named[0], named[1] if len(named) > 1 else {}, " ".join(tables[0]["notes"]), tables[0]["title"]

    def processes(self):
        """Those that the program started, and the program."""
        found = []
        for pid in filter(str.isdecimal, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    is_marked = self.mark.encode() in file.read().split(b"\0")
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    if is_marked and b"victim_tried" in file.read().split(b"\0")[0]:
                        found.append(int(pid))
            except OSError:  # it has ended
                pass
        return found

    def assert_nothing_left(self):
        self.assertEqual(self.processes(), [])
        self.assertEqual(os.listdir(self.places["tmp"]), [])

    def test_large_effects_are_found(self):
        rows, sentences, notes, answer = self.tried("--env", "REST_MS=4,100", "--env", "FAILS=1", "--workdir-copy", LOSSES=1,
                                                    WRITES="checkpoint")
        self.assertEqual({name: row["outcome"] for name, row in rows.items()},
                         {"none": None, "REST_MS=4": "faster", "REST_MS=100": "slower", "FAILS=1": "failed"})
        self.assertGreater(rows["REST_MS=4"]["low"], 1)
        self.assertLess(rows["REST_MS=100"]["high"], 1)
        self.assertIn(f"use: REST_MS=4 {e2e.victim('tried')}", answer)
        self.assertEqual(sentences["REST_MS=4"]["command"], f"REST_MS=4 {e2e.victim('tried')}")
        self.assertIn("printed losses differ by up to 78 %", sentences["REST_MS=4"]["cost"])
        self.assertIn("line 1: 4.5, was 20.5", sentences["REST_MS=4"]["cost"])
        self.assertIn("ended with code 3: it must fail", sentences["FAILS=1"]["moved"])
        self.assertNotIn("writes", notes)
        self.assertEqual(os.listdir(self.places["work"]), [])  # --workdir-copy

    def test_programs_that_end_without_steps(self):
        rows, _, notes, _ = self.tried("--env", "REST_MS=400", STEPS=1)
        self.assertEqual(rows["REST_MS=400"]["outcome"], "slower")
        self.assertIn("of the whole run", notes)

    def test_what_can_not_be_compared(self):
        argv = self.argv("--env", "REST_MS=2")
        result = e2e.run(argv, env=self.environment_of(FAILS=1), cwd=self.places["work"])
        self.assertEqual((result.code, result.out), (2, b""))
        self.assertIn(b"the program as it is: it ended with code 3: it must fail", result.err)
        for words, complaint in ((["--budget", "soon"], b"--budget expects a time"), (["--env", "REST_MS"], b"--env expects"),
                                 (["--arg", "size=3"], b"--arg expects"), (["--steps", "2"], b"--steps expects")):
            result = e2e.run(self.argv(*words))
            self.assertEqual(result.code, 2)
            self.assertIn(complaint, result.err)
        self.assert_nothing_left()

    def test_what_ignores_signals_forks_and_writes(self):
        result = e2e.run(self.argv("--env", "REST_MS=2", "--budget", "12s"), cwd=self.places["work"],
                         env=self.environment_of(STUBBORN=1, FORKS=1, WRITES="checkpoint"))
        self.assertIn(b"writes in its working folder (checkpoint)", result.err)
        self.assertEqual(os.listdir(self.places["work"]), ["checkpoint"])
        self.assert_nothing_left()

    def stopped(self, how):
        process = e2e.start(self.argv("--env", "REST_MS=2"), env=self.environment_of(FORKS=1), cwd=self.places["work"])
        end = time.monotonic() + PATIENCE
        while len(self.processes()) < 3 and time.monotonic() < end:
            time.sleep(0.05)
        self.assertEqual(len(self.processes()), 3)
        how(process.pid)
        while (self.processes() or os.listdir(self.places["tmp"])) and time.monotonic() < end:
            time.sleep(0.05)
        self.assert_nothing_left()
        process.communicate()

    def test_killed(self):
        self.stopped(lambda pid: os.kill(pid, signal.SIGKILL))

    @staticmethod
    def kill_worker(pid):
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            os.kill(int(file.read().split()[0]), signal.SIGKILL)

    def test_its_worker_is_killed(self):
        self.stopped(self.kill_worker)

    def test_all_of_it_is_killed(self):
        """No process is left to clean up: the program ends with its launcher."""
        process = e2e.start(self.argv("--env", "REST_MS=2"), env=self.environment_of(), cwd=self.places["work"])
        end = time.monotonic() + PATIENCE
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
    e2e.main()
