"""What threads of NumPy and PyTorch did (`threads`, `accounting`, `phases`), against the programs' own clocks."""

import json
import os
import re

import frameworks
from frameworks import Case, e2e, program

TICK = 0.05  # s, of each process: the kernel's sums are as old as the last tick, or as the last look


class Waiting(Case):
    def told(self, name):
        """The program's own clocks, and the rows of the whole run."""
        self.fresh_run()
        result = self.under("launcher", program("waiting", name))
        self.assertEqual(result.code, 0, result.err.decode()[-2000:])
        clocks = json.loads(result.out)
        rows = [row for row in e2e.Run(self.run_path).table("threads") if row["step"] == "whole run"]
        self.assert_sum([row for row in rows if row["process"] == clocks["pid"]], clocks["process"])
        main, = (row for row in rows if row["tid"] == clocks["pid"])
        self.assert_sum([main], clocks["main"])
        self.assertEqual(main["running"] + main["no_processor"] + main["blocked"], main["time"])
        self.assertAlmostEqual(main["time"] / 1e9, clocks["wall"], delta=0.02 * clocks["wall"] + TICK)
        return clocks, rows, main

    def assert_sum(self, rows, cpu):
        processes = len({row["process"] for row in rows})
        self.assertAlmostEqual(sum(row["running"] for row in rows) / 1e9, cpu, delta=0.02 * cpu + processes * TICK, msg=rows)

    def test_numpy(self):
        clocks, _, main = self.told("numpy")
        self.assertGreater(main["blocked"] / 1e9, 0.98 * clocks["asleep"] - TICK)
        self.assertIn("sleep", main["blocked_in"])
        gaps = {row["what"]: row for row in e2e.Run(self.run_path).table("accounting") if row["activity"] == "not seen"}
        asleep, computes = gaps["waiting.py:17 to 19"], gaps["waiting.py:19 to 17"]
        for row, is_asleep in ((asleep, True), (computes, False)):
            # Whether others had the processors meanwhile does not matter.
            part = row["blocked"] / (row["time"] - row["no_processor"])
            (self.assertGreater if is_asleep else self.assertLess)(part, 0.5, row)
        self.assertEqual(asleep["blocked_in"], "sleep")

    def test_torch_and_its_workers(self):
        clocks, rows, _ = self.told("torch")
        workers = [row for row in rows if row["process"] != clocks["pid"]]
        self.assertEqual(len({row["process"] for row in workers}), 2)
        self.assert_sum(workers, clocks["children"])
        phase, = (row for row in e2e.Run(self.run_path).table("phases") if row["phase"] == "input")
        self.assertGreater(phase["blocked"] / (phase["time"] - phase["no_processor"]), 0.5)

    def test_a_pipeline_of_tensorflow(self):
        python = frameworks.TENSORFLOW_PYTHON
        if not os.access(python, os.X_OK):
            self.skipTest(frameworks.MISSING)
        result = self.under("launcher", [python, *program("input_pipeline", 60)[1:]])
        self.assertEqual(result.code, 0, result.err.decode()[-2000:])
        finding, = (row for row in e2e.Run(self.run_path).table("findings") if row["rule"] == "input-wait")
        told = re.search(r"pipeline's operations \(mostly PyFunc, in 2 threads\) computed (\d+) %, waited for a processor (\d+) %, "
                         r"were blocked (\d+) % \(in sleep", finding["finding"])
        self.assertIsNotNone(told, finding)
        computed, _, blocked = map(int, told.groups())
        self.assertGreater(blocked, 5 * computed)  # whether others had the processors meanwhile does not matter


if __name__ == "__main__":
    e2e.main()
