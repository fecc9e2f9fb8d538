"""Commands that run a program again and again and leave nothing: dlhook try, dlhook contend."""

import json
import os
import signal
import time

import e2e

PATIENCE = 120  # seconds until a test gives up waiting for what must come


class Case(e2e.Case):
    command = ""

    def setUp(self):
        super().setUp()
        self.places = {}
        for name in ("work", "tmp"):
            self.places[name] = os.path.join(self.folder, name)
            os.mkdir(self.places[name])
        self.mark = f"TRY_MARK={self.folder}"

    def environment_of(self, **extra):
        return e2e.clean_environment(TMPDIR=self.places["tmp"], TRY_MARK=self.folder, **{"REST_MS": 20, **extra})

    def argv(self, *words):
        return [e2e.DLHOOK, self.command, "--format", "json", *words, "--", e2e.victim("tried")]

    def tables(self, *words, **extra):
        result = e2e.run(self.argv(*words), env=self.environment_of(**extra), cwd=self.places["work"])
        self.assertEqual(result.code, 0, result.err)
        self.assert_nothing_left()
        return json.loads(result.out)["tables"]

    @staticmethod
    def rows_of(table):
        """{first cell: row}, a row by its columns."""
        names = [column["name"] for column in table["columns"]]
        return {row[0]: dict(zip(names, row, strict=True)) for row in table["rows"]}

    def processes(self, program=b"victim_tried"):
        """Those of the test whose command line starts so."""
        found = []
        for pid in filter(str.isdecimal, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    is_marked = self.mark.encode() in file.read().split(b"\0")
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    if is_marked and program in file.read().split(b"\0")[0]:
                        found.append(int(pid))
            except OSError:  # it has ended
                pass
        return found

    def left(self):
        return self.processes(), os.listdir(self.places["tmp"])

    def assert_nothing_left(self):
        self.assertEqual(self.left(), ([], []))

    def wait_until(self, condition):
        end = time.monotonic() + PATIENCE
        while not condition() and time.monotonic() < end:
            time.sleep(0.02)
        self.assertTrue(condition())

    def stopped_when(self, words, condition, how, **extra):
        """Starts the command, ends it by `how` once `condition` holds: nothing is left."""
        process = e2e.start(self.argv(*words), env=self.environment_of(**extra), cwd=self.places["work"])
        self.wait_until(condition)
        how(process.pid)
        end = time.monotonic() + PATIENCE
        while any(self.left()) and time.monotonic() < end:
            time.sleep(0.05)
        self.assert_nothing_left()
        process.communicate()

    @staticmethod
    def kill_worker(pid):
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            os.kill(int(file.read().split()[0]), signal.SIGKILL)
