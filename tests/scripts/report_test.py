"""scripts/test_report.py: failures are reported with the end of their output, in few bytes, after everything else."""

import os
import subprocess
import sys
import tempfile
import unittest

REPORT = os.path.join(os.path.dirname(__file__), "..", "..", "scripts", "test_report.py")


def junit(*cases):
    return '<testsuite name="t">' + "".join(cases) + "</testsuite>"


def case(name, seconds, inner="", output=""):
    return f'<testcase name="{name}" time="{seconds}">{inner}<system-out>{output}</system-out></testcase>'


FAILED = '<failure message=""/>'


def report(**presets):
    with tempfile.TemporaryDirectory() as folder:
        arguments = []
        for preset, text in presets.items():
            path = os.path.join(folder, preset)
            if text is not None:
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
            arguments.append(f"{preset}={path}")
        stages = os.path.join(folder, "stages")
        with open(stages, "w", encoding="utf-8") as file:
            file.write("65 build (release)\n")
        return subprocess.run([sys.executable, "-B", REPORT, stages, *arguments], check=True, capture_output=True, text=True).stdout


class Report(unittest.TestCase):
    def test_names_what_failed_in_every_preset(self):
        lines = [f"line {i}" for i in range(100)]
        text = report(release=junit(case("good", 3), case("bad", 1, FAILED, "\n".join(lines))),
                      asan=junit(case("gone", 0, '<skipped message="Unable to find executable"/>'),
                                 case("skipped", 0, '<skipped message="SKIP_RETURN_CODE=77"/>')))
        self.assertIn("65 s  build (release)", text)
        self.assertIn("2 failed:\n  bad (release): failed\n  gone (asan): Unable to find executable\n", text)
        self.assertIn("line 70\n", text)
        self.assertIn("line 99\n", text)
        self.assertNotIn("line 69\n", text)

    def test_ten_slowest(self):
        text = report(release=junit(*(case(f"t{i}", i) for i in range(11))))
        self.assertIn("10 s  t10 (release)", text)
        self.assertNotIn(" t0 ", text)
        self.assertNotIn("failed", text)

    def test_short_whatever_fails(self):
        long = "\n".join("x" * 1000 for _ in range(40))
        for count in (1, 3, 1000):
            text = report(release=junit(*(case(f"t{i}", 1, FAILED, long) for i in range(count))))
            self.assertIn(f"{count} failed:", text)
            self.assertLess(len(text), 11000)

    def test_ctest_that_was_killed(self):
        self.assertIn("asan: ctest left no results", report(asan=None))
        self.assertIn("asan: ctest left no results", report(asan="<testsuite><testca"))


if __name__ == "__main__":
    unittest.main()
