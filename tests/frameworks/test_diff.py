"""`dlhook diff` on real training with a deliberate difference: channels_last, a wider layer, none at all.

The witness is the change itself, and oneDNN's own log. No test checks durations.
"""

import json
import os
import subprocess

import frameworks
from frameworks import e2e, program

STEPS = 40
PAIRS = 3  # of runs, on a shared machine; of equal ones at most one may differ by more than noise
BUSY = r"(busy machine \(.*\): )?"  # others may take the processors


def rows_of(table):
    names = [column["name"] for column in table["columns"]]
    return [dict(zip(names, row, strict=True)) for row in table["rows"]]


class Diff(frameworks.Case):
    runs = {}  # shared by several tests, by arguments
    shared = None

    @classmethod
    def setUpClass(cls):
        cls.shared = e2e.tempfile.mkdtemp(prefix="dlhook-diff-")
        cls.addClassCleanup(e2e.shutil.rmtree, cls.shared, ignore_errors=True)

    def start(self, *arguments, steps=STEPS):
        """A running run, and its folder."""
        path = os.path.join(self.shared, f"run{len(self.runs)}")
        self.runs[path] = None
        command = [e2e.DLHOOK, "run", "-o", path, "--", *program("cnn", steps, 1, *arguments)]
        return subprocess.Popen(command, env=self.environment("launcher"), cwd=self.folder, stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL), path

    def training(self, *arguments):
        """The folder of a finished run with these arguments."""
        if arguments not in self.runs:
            process, path = self.start(*arguments)
            self.assertEqual(process.wait(timeout=300), 0)
            self.runs[arguments] = path
        return self.runs[arguments]

    def both_at_once(self, *arguments, steps=(STEPS, STEPS)):
        """The folders of concurrent runs: other load of the machine then affects all of them."""
        started = [self.start(*words, steps=count) for words, count in zip(arguments, steps)]
        for process, _ in started:
            self.assertEqual(process.wait(timeout=300), 0)
        return [path for _, path in started]

    def diff(self, base, new, *options, expected_code=0):
        result = e2e.run([e2e.DLHOOK, "diff", base, new, *options])
        self.assertEqual(result.code, expected_code, result.err.decode())
        return result.out.decode()

    def tables(self, base, new, *options, **expected):
        """{name: table} with their rows as dictionaries, and the sentence."""
        report = json.loads(self.diff(base, new, "--format", "json", *options, **expected))
        self.assertEqual(report["tables"][0]["name"], "verdict")
        return {table["name"]: rows_of(table) for table in report["tables"]}, report["tables"][0]

    def test_channels_last_takes_the_round_trips_away(self):
        tables, verdict = self.tables(self.training(), self.training("channels_last"))
        self.assertRegex(verdict["title"], r"reorder 15 -> 7 a step")
        before, after = (sum(row[side] or 0 for row in tables["layout"]) for side in ("calls_base", "calls_new"))
        self.assertGreaterEqual(before, after + 4)
        witness = frameworks.reorders(self.witness(program("cnn", 6, 1)))
        activations = {reorder: count for reorder, count in witness.items() if reorder.problem == "8x16x32x32"}
        self.assertGreaterEqual(len(activations), 2)
        for reorder, count in activations.items():
            # One for each pair of ops.
            rows = [row for row in tables["layout"]
                    if (row["from"], row["to"], row["dims"]) == (reorder.source, reorder.target, reorder.problem)]
            self.assertAlmostEqual(sum(row["calls_base"] for row in rows), count / 6, places=1)
            self.assertTrue(all(row["calls_new"] is None for row in rows), rows)
        implementations = [row["why"] for row in tables["work"] if row["what"] == "convolution" and row["why"]]
        self.assertTrue(any("formats: " in why for why in implementations), implementations)

    def test_a_wider_layer_stands_on_top(self):
        # Both take seconds: of a few short steps most could be interrupted by other programs. The layer takes eight
        # times as long then.
        # Where others take the processors, it may still be noise: as for equal runs, another pair then.
        for _ in range(PAIRS):
            base, wide = self.both_at_once((), ("wide",), steps=(10 * STEPS, STEPS))
            tables, verdict = self.tables(base, wide)
            step, top = tables["verdict"][:2]
            if step["verdict"] != "noise":
                break
        self.assertEqual((step["what"], step["verdict"]), ("training step", "slower"))
        self.assertEqual(top["what"], "2", verdict["title"])
        self.assertRegex(verdict["title"],
                         "^" + BUSY + r"NEW is [\d.]+ % slower per training step .*: more work per call: convolution oc 16 -> 512 in 2 ")
        self.assertTrue(any("oc 16 -> 512" in (row["why"] or "") for row in tables["verdict"] if row["what"] == "2"))
        self.assertEqual(max(tables["layers"], key=lambda row: row["change"])["layer"], "2")
        self.diff(base, wide, "--fail-above", "3%", expected_code=1)
        self.diff(wide, base, "--fail-above", "0")

    def test_equal_runs_differ_by_noise(self):
        self.training()  # to fill the machine's caches
        verdicts = []
        for _ in range(PAIRS):
            base, new = self.both_at_once((), ())
            tables, verdict = self.tables(base, new)
            same = "Both runs did the same work in the same way; only the speed differs"
            self.assertTrue(any(note.startswith(same) for note in verdict["notes"]), verdict["notes"])
            self.assertEqual({row["why"] for row in tables["work"] if row["change"] > 0}, {None})
            verdicts.append(tables["verdict"][0]["verdict"])
            if verdicts.count("noise") == PAIRS - 1:
                return
        self.fail(f"beyond noise: {verdicts}")

    def test_a_run_against_itself_is_empty(self):
        tables, verdict = self.tables(self.training(), self.training(), "--fail-above", "0")
        self.assertEqual(set(map(len, tables.values())), {0})
        self.assertRegex(verdict["title"], "^" + BUSY + "no difference: .* on both sides$")
        self.assertRegex(self.diff(self.training(), self.training()), "^verdict: " + BUSY + "no difference: ")


if __name__ == "__main__":
    e2e.main()
