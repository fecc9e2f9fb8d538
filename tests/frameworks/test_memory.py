#!/usr/bin/env python3
"""What memory is held for. Witnesses: sizes counted by hand, and torch.profiler's total of another run."""

import json
import os

import frameworks
from frameworks import e2e, program

BATCH, WIDTH, CLASSES = 512, 1024, 10
ACTIVATION = 4 * BATCH * WIDTH
PARAMETERS = 4 * (256 * WIDTH + WIDTH + WIDTH * WIDTH + WIDTH + WIDTH * CLASSES + CLASSES)


class Memory(frameworks.Case):
    def sums(self, run, column):
        sums = {}
        for row in run.table("memory"):
            sums[row["kind"]] = sums.get(row["kind"], 0) + row[column]
        return sums

    def check(self, run):
        kept = {}
        for row in run.table("memory"):
            if row["kind"] == "kept for backward" and row["layer"]:
                kept[row["layer"].lower()] = kept.get(row["layer"].lower(), 0) + row["most"]
        # What ReLU and GELU return is the next layer's input; GELU keeps its own, the second layer's output.
        for name, layer in (("relu", "relu"), ("linear_1", "mid"), ("gelu", "gelu")):
            of_layer = kept.get(layer, kept.get(name + "_0", kept.get(name)))
            self.assertEqual(of_layer, ACTIVATION, kept)
        most = self.sums(run, "most")
        self.assertEqual(most["weights"], PARAMETERS, most)
        self.assertEqual(most["gradients"], PARAMETERS, most)
        self.assertAlmostEqual(most["optimizer state"], 2 * PARAMETERS, delta=100)

    def test_own_run(self):
        run = self.recorded("writer", program("memory_net"), OMP_NUM_THREADS=1)
        self.check(run)
        path = os.path.join(self.folder, "trace.json")
        result = e2e.run(program("memory_net", path), env=e2e.clean_environment(OMP_NUM_THREADS=1), cwd=self.folder)
        self.assertEqual(result.code, 0, result.err.decode()[-2000:])
        with open(path, encoding="utf-8") as file:
            events = [event["args"] for event in json.load(file)["traceEvents"] if event.get("name") == "[memory]"]
        peak = max(event["Total Allocated"] for event in events)
        self.assertAlmostEqual(sum(row["at_peak"] for row in run.table("memory")), peak, delta=0.02 * peak)
        profiled = e2e.Run(path)
        self.check(profiled)
        self.assertEqual(sum(row["at_peak"] for row in profiled.table("memory")), peak)
        answer = e2e.run([e2e.DLHOOK, "report", path]).out.decode()
        self.assertIn("Peak of tensors on cpu: ", answer)
        self.assertIn("keeps most for backward: ", answer)

    def test_off(self):
        run = self.recorded("writer", program("memory_net"), OMP_NUM_THREADS=1, DLHOOK_MEMORY="off")
        self.assertEqual(run.table("memory"), [])


if __name__ == "__main__":
    e2e.main()
