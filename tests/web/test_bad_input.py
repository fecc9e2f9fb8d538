#!/usr/bin/env python3
"""Runs with little, much, hostile, damaged or newer contents in every format of `dlhook report` and `dlhook export`, and in `dlhook
top`: all of them end as they should, what text holds is harmless, and what was left out is said. Pages: test_report_page.py."""
import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest

import traces

DLHOOK = os.environ["DLHOOK_TEST_DLHOOK"]
# parquet is sqlite's, converted: preload_e2e/test_export_readers.py.
COMMANDS = [("report",), ("report", "--table", "all"), *(("report", "--format", one) for one in ("csv", "json", "markdown")),
            *(("export", "--format", one)
              for one in ("folded", "pprof", "callgrind", "perfetto", "chrome", "sqlite")),
            ("top", "--once")]
BINARY = ("pprof", "perfetto", "sqlite")
# What must not reach a terminal: control characters, and those that change the direction of text.
DANGEROUS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


class BadInput(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="dlhook_web_")
        self.addCleanup(shutil.rmtree, self.folder)

    def check(self, run, code=0, says="", commands=COMMANDS):
        """All commands; `says`: what each that is for people tells of the run."""
        for command, *flags in commands:
            words = [command, run, *flags]
            if flags[-1:] == ["sqlite"]:
                words += ["-o", os.path.join(self.folder, "out.sqlite")]
            with self.subTest(words=words):
                result = subprocess.run([DLHOOK, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
                errors = result.stderr.decode()
                # top shows what it can read, also of a run that is being written.
                self.assertEqual(result.returncode, 0 if command == "top" else code, errors)
                self.assertIsNone(DANGEROUS.search(errors), errors)
                if flags[-1:] and flags[-1] in BINARY:
                    continue
                text = result.stdout.decode()
                self.assertIsNone(DANGEROUS.search(text), text)
                self.assertGreater(len(text) + len(errors), 20)
                if text and flags[-1:] and flags[-1] in ("json", "chrome"):
                    json.loads(text)
                if (command == "report" and "csv" not in flags) or (command == "top" and code == 0):
                    self.assertIn(says, " ".join((text + errors).split()))

    def test_little(self):
        empty = traces.no_calls(self.folder)
        self.check(empty, commands=[words for words in COMMANDS if words[0] != "export"])
        self.check(empty, commands=[words for words in COMMANDS if words[0] == "export"], code=2)  # there is nothing to export
        self.check(traces.one_call(self.folder))
        self.check(traces.network(self.folder, "no steps", 3, 1))

    def test_many_layers(self):
        # One of each kind: a second of processor time each.
        self.check(traces.network(self.folder, "many layers", 10_000, 2), commands=COMMANDS[1::4] + COMMANDS[-1:])

    def test_hostile_names(self):
        self.check(traces.hostile(self.folder))

    def test_cut_off(self):
        run = traces.golden(self.folder, "torch_cnn_channels_last")
        trace = os.path.join(run, "1.dlh")
        os.truncate(trace, os.path.getsize(trace) * 2 // 3)
        self.check(run, code=2, says="1.dlh")

    def test_a_newer_minor_version(self):
        self.check(traces.newer(self.folder), says="in a newer form than this dlhook knows; what is new in it was left out")

    def test_two_versions_in_one_run(self):
        self.check(traces.two_versions(self.folder), says="in a newer form than this dlhook knows; what is new in it was left out")

    def test_a_newer_major_version_beside_another(self):
        run = traces.two_versions(self.folder, major=2)
        says = "schema version 2.99, written by dlhook 9.0"
        self.check(run, code=2, says=says)
        self.assertIn(says, " ".join(subprocess.check_output([DLHOOK, "top", run, "--once"]).decode().split()))


if __name__ == "__main__":
    unittest.main()
