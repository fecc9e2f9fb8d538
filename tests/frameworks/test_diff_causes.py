"""`dlhook diff` on one PyTorch training with one thing made worse each time: the verdict names it, and the causes add up to the change.

Times are not asserted: on an idle machine the first sentence names the change as the largest cause; on a busy one times may differ
by more than the change makes them, and the verdict names it among what NEW does differently.
"""

import json
import os
import subprocess

import frameworks
from frameworks import e2e, program

STEPS = 30
AT_ONCE = 2
BASES = {"one_thread": "two_threads"}
# Threads are looked at twenty times a second: on an idle machine thirty steps are over before the second one.
MORE_STEPS = {"one_thread": 300, "two_threads": 300, "slow_input": 60}

# What the verdict (of one thread: the line before it) matches.
CHANGES = {
    "wider": r"convolution oc 32 -> 96",
    "deeper": r"layer blocks \(3 layers\) is new",
    "extra_layer": r"layer extra is new",
    "contiguous": r"memory formats|reorder \d+ -> \d+ a step",
    "float64": r"f32 -> f64",
    "split_batch": r"forward and backward passes before an update 1 -> 2",
    "one_thread": r"threads of the program \d -> \d",
    "no_foreach": r"aten::_foreach|aten::mul 30 -> 0 a step in optimizer",
    "no_mkldnn": r"implementation: convolution|gemm 39 -> 87 a step",
    "item": r"aten::item 0 -> 400 a step",
    "slow_input": r"more time for input: in NEW its thread computed .* blocked \d+ %|\[data loading\] \+",
    "copies": r"CloneBackward0 0 -> \d+ a step",
    "unfrozen": r"(stem|body) backward.*: only NEW computes it|convolution 6 -> 8 a step",
    "gelu": r"aten::gelu",
    "compiled": r"torch.compile none -> used",
    "updates": r"calls of an optimizer's step\(\) in a step 1 -> 3",
    "evaluation": r"convolution 0 -> 1 a step|gemm 39 -> 52 a step",
}


def rows_of(table):
    names = [column["name"] for column in table["columns"]]
    return [dict(zip(names, row, strict=True)) for row in table["rows"]]


class DiffCauses(frameworks.Case):
    def start(self, change):
        path = os.path.join(self.folder, change)
        command = [e2e.DLHOOK, "run", "-o", path, "--", *program("diff_victims", change, MORE_STEPS.get(change, STEPS))]
        return subprocess.Popen(command, env=self.environment("launcher"), cwd=self.folder, stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL)

    def record(self, changes):
        waiting, running = list(changes), []
        while waiting or running:
            while waiting and len(running) < AT_ONCE:
                running.append(self.start(waiting.pop()))
            self.assertEqual(running.pop(0).wait(timeout=300), 0)

    def diff(self, change):
        sides = [os.path.join(self.folder, side) for side in (BASES.get(change, "base"), change)]
        result = e2e.run([e2e.DLHOOK, "diff", *sides, "--table", "work", "--format", "json"])
        self.assertEqual(result.code, 0, result.err.decode())
        return json.loads(result.out)

    def assert_adds_up(self, report):
        tables = {table["name"]: table for table in report["tables"]}
        step = next(row for row in rows_of(tables["verdict"]) if row["what"] == "training step")
        self.assertEqual(sum(row["change"] for row in rows_of(tables["causes"])), step["change"])

    def test_each_is_named(self):
        self.record(["base", *BASES.values(), *CHANGES, "python"])
        for change, words in CHANGES.items():
            with self.subTest(change=change):
                report = self.diff(change)
                self.assertRegex(report["environment"] if change == "one_thread" else report["tables"][0]["title"], words)
                self.assert_adds_up(report)
        # Of Python's own time nothing is different but that it is longer, which is noise on a busy machine.
        findings = next(table for table in self.diff("python")["tables"] if table["name"] == "findings")
        self.assertIn(("new", "slow-lines"), [(row["change"], row["rule"]) for row in rows_of(findings)])


if __name__ == "__main__":
    e2e.main()
