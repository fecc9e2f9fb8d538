"""Layers of networks that PyTorch's unmodified CUDA wheel trains on the fake libraries: the table's rows are the network's modules, each
with its forward and backward calls, and the FLOPs of each are those of its shape, counted by hand."""

import json

import fake_gpu
from fake_gpu import e2e, program

STEPS = 5
BATCH = 4

# Multiply-adds of one image forward, by module: output points x kernel (input channels of a group included).
ALEXNET = {
    "0": 55 * 55 * 96 * 11 * 11 * 3,
    "4": 27 * 27 * 256 * 5 * 5 * 48,
    "8": 13 * 13 * 384 * 3 * 3 * 256,
    "10": 13 * 13 * 384 * 3 * 3 * 192,
    "12": 13 * 13 * 256 * 3 * 3 * 192,
    "16": 9216 * 512,
    "19": 512 * 10,
}
RESNET = {
    "first": 16 * 16 * 32 * 3 * 3 * 16,
    "second": 16 * 16 * 32 * 3 * 3 * 32,
    "shortcut": 16 * 16 * 32 * 16,
    "head": 32 * 10,
}


class Layers(fake_gpu.Case):
    def layers(self, *arguments):
        """{layer: {column: value}} of the run's `layers` table, in its order."""
        self.fresh_run()
        argv = program("train", *arguments, "--steps", STEPS)
        result = self.under("launcher", argv, **self.scenario())
        self.assertEqual(e2e.shell_code(result.code), 0, result.err.decode()[-3000:])
        report = e2e.run([e2e.DLHOOK, "report", self.run_path, "--table", "layers", "--format", "json"])
        self.assertEqual(report.code, 0, report.err.decode())
        (table,) = json.loads(report.out)["tables"]
        names = [column["name"] for column in table["columns"]]
        rows = [dict(zip(names, row)) for row in table["rows"]]
        return {row["layer"]: row for row in rows}

    def check(self, rows, multiply_adds, reading_input):
        weighted = [name for name in rows if name in multiply_adds]
        self.assertEqual(weighted, list(multiply_adds))
        for name in weighted:
            row = rows[name]
            self.assertGreater(row["forward"], 0, name)
            self.assertGreater(row["backward"], 0, name)
            # Forward, backward-weights, and backward-data except for layers that read the network's input.
            passes = 2 if name in reading_input else 3
            self.assertEqual(row["flops"], passes * 2 * BATCH * multiply_adds[name], name)
            self.assertEqual(row["matched_by"], "framework", name)

    def test_alexnet(self):
        for arguments in ((), ("--channels-last",), ("--benchmark",)):
            with self.subTest(arguments):
                rows = self.layers("alexnet", *arguments)
                self.check(rows, ALEXNET, reading_input={"0"})
                named = [name for name in rows if name.split(":")[0].isdigit()]
                self.assertEqual([int(name.split(":")[0]) for name in named], sorted(int(n.split(":")[0]) for n in named))

    def test_residual_block(self):
        rows = self.layers("resnet")
        self.check(rows, RESNET, reading_input={"first", "shortcut"})


if __name__ == "__main__":
    e2e.main()
