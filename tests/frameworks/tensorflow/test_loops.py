"""Loops inside of functions: steps are those of the program, however often a loop in one repeats; their work has its layers."""

import collections

import nodes
from nodes import program

STEPS = 20


class Loops(nodes.Case):
    def kinds_and_layers(self, mode, **extra):
        """{kind: number of steps} and {layer: its row} of one process."""
        run = self.recorded("launcher", program("loops", mode), TF_CPP_MIN_LOG_LEVEL="3", **extra)
        rows = {row["layer"]: row for row in run.table("layers") if not row["layer"].startswith("[")}
        return collections.Counter(row["kind"] for row in run.table("steps")), rows, run

    def test_a_loop_over_time_steps(self):
        kinds, rows, _ = self.kinds_and_layers("times")
        self.assertEqual(kinds, {"training": STEPS})
        for layer in ("while/MatMul", "while/MatMul_1", "MatMul"):  # two in the loop; the network has no layers
            self.assertIsNotNone(rows[layer]["forward"], layer)
            self.assertIsNotNone(rows[layer]["backward"], layer)

    def test_a_recurrent_layer(self):
        kinds, rows, run = self.kinds_and_layers("keras", KERAS_HOME=self.folder)
        self.assertEqual(kinds, {"training": 2 * STEPS})  # no step is one that got no batch, at the end of an epoch
        self.assertEqual({row["batch"] for row in run.table("steps")}, {8})
        cell = rows["sequential_1/cells_1/lstm_cell_1"]
        self.assertIsNotNone(cell["forward"])
        self.assertIsNotNone(cell["backward"])

    def test_several_batches_in_one_call(self):
        kinds, rows, _ = self.kinds_and_layers("executions", KERAS_HOME=self.folder)
        self.assertEqual(kinds, {"training": 2 * STEPS})
        self.assertIsNotNone(rows["sequential_1/cells_1/lstm_cell_1"]["backward"])
        self.assertIn("optimizer (rm_sprop)", rows)

    def test_a_function_for_each_layer(self):
        kinds, rows, run = self.kinds_and_layers("layers")
        self.assertEqual(kinds, {"training": STEPS})
        self.assertEqual({row["micro_steps"] for row in run.table("steps")}, {1})
        self.assertIsNotNone(rows["dense_1"]["backward"])

    def test_a_loop_over_steps(self):
        kinds, *_ = self.kinds_and_layers("steps")
        self.assertEqual(kinds, {"training": 2 * 15})

    def test_plain_arithmetic(self):
        kinds, *_ = self.kinds_and_layers("curve")
        self.assertEqual(kinds, {"training": STEPS})

    def test_a_loop_in_a_request(self):
        kinds, *_ = self.kinds_and_layers("requests")
        self.assertEqual(kinds, {"inference": 25})


if __name__ == "__main__":
    nodes.e2e.main()
