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


def report(units=None, again=None, **presets):
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(os.path.join(folder, "units"))
        for program, text in (units or {}).items():
            with open(os.path.join(folder, "units", program + ".xml"), "w", encoding="utf-8") as file:
                file.write(text)
        arguments = []
        for preset, text in presets.items():
            path = os.path.join(folder, preset)
            if text is not None:
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
            arguments.append(f"{preset}={path}")
            if again is not None:
                with open(path + ".again", "w", encoding="utf-8") as file:
                    file.write(again)
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

    def test_what_passes_alone_is_flaky(self):
        text = report(release=junit(case("good", 3), case("often", 1, FAILED, "beside others")),
                      again=junit(case("often", 1, "", "alone")))
        self.assertIn("FLAKY: often (release); the end of what it printed:\n    beside others\n", text)
        self.assertIn("the same, alone, passed; the end of what it printed:\n    alone\n", text)
        self.assertNotIn("failed:", text)
        text = report(release=junit(case("bad", 1, FAILED)), again=junit(case("bad", 1, FAILED)))
        self.assertIn("1 failed:\n  bad (release): failed\n", text)
        self.assertNotIn("FLAKY", text)

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

    def test_tests_of_a_program_are_counted_and_named(self):
        unit = ('<testsuites><testsuite name="S"><testcase name="Good" classname="S" time="1"/><testcase name="Bad" classname="S"'
                ' time="1"><failure message="x">a.cc:3: Expected 1</failure></testcase></testsuite></testsuites>')
        text = report(units={"p_test": unit}, release=junit(case("p_test", 2, FAILED, "the program's"), case("other", 1)))
        self.assertIn("release: 3 tests in 2 programs\n", text)
        self.assertIn("1 failed:\n  p_test: S.Bad (release): failed\n", text)
        self.assertIn("    a.cc:3: Expected 1\n", text)
        self.assertNotIn("the program's", text)
        # All its tests passed, but it failed: a leak at its end. And one that crashed leaves half a file.
        for left in (unit.replace('<failure message="x">a.cc:3: Expected 1</failure>', ""), unit[:80]):
            text = report(units={"p_test": left}, release=junit(case("p_test", 2, FAILED, "the program's")))
            self.assertIn("1 failed:\n  p_test (release): failed\n", text)
            self.assertIn("    the program's\n", text)

    def test_ctest_that_was_killed(self):
        self.assertIn("asan: ctest left no results", report(asan=None))
        self.assertIn("asan: ctest left no results", report(asan="<testsuite><testca"))


if __name__ == "__main__":
    unittest.main()
