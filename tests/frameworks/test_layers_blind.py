"""The table `layers` from operands, shapes and order alone, against the table from the framework's own scopes.

Both are made from the same trace. The calls of a layer must agree exactly: their number, their work, and the time of
layout conversions attributed to it. Names may differ, and times, as the framework's own work around the calls is not
known.
"""

import frameworks
from frameworks import program

STEPS = 6
EXACT = ("calls", "flops", "bytes", "layout")
# Bias sums and recomputed activations make no library call or are visible only in the framework's scopes.
DIRECTIONS = ("forward", "backward_data", "backward_weights")


class Blind(frameworks.Case):
    def both(self, network):
        """Rows with library calls, from the framework's scopes and from the structure."""
        run = self.recorded("launcher", program("train_model", network, STEPS), OMP_NUM_THREADS=1)
        tables = []
        for evidence in ("all", "structure"):
            (table,) = run.report("--table", "layers", "--evidence", evidence)["tables"]
            names = [column["name"] for column in table["columns"]]
            rows = [dict(zip(names, row, strict=True)) for row in table["rows"]]
            tables.append([row for row in rows if row["calls"] and not row["layer"].startswith("[")])
        return tables

    def check_same(self, network, told, found):
        self.assertEqual(len(found), len(told), network)
        for known, row in zip(told, found, strict=True):
            what = (network, known["layer"], row["layer"])
            for column in EXACT:
                self.assertEqual(row.get(column), known.get(column), (*what, column))
            for direction in DIRECTIONS:
                self.assertEqual(row.get(direction) is None, known.get(direction) is None, (*what, direction))
            self.assertEqual(row["type"], known["type"], what)

    def test_sequential_networks(self):
        for network, names in (("lenet", ["conv1", "conv2", "fc1", "fc2", "fc3"]),
                               ("nobias", [f"fc{i}" for i in range(1, 7)]),
                               ("alexnet", [f"conv{i}" for i in range(1, 6)] + ["fc1", "fc2", "fc3"]),
                               ("vgg11", [f"conv{i}" for i in range(1, 9)] + ["fc1", "fc2", "fc3"])):
            with self.subTest(network=network):
                told, found = self.both(network)
                self.assertEqual([row["layer"] for row in found], names)
                self.check_same(network, told, found)
                for row in found:
                    self.assertIn(row["matched_by"], ("pointers", "shapes", "order"))
                    self.assertFalse(row.get("ambiguity"), row)

    def test_branches_agree_or_say_that_they_are_ambiguous(self):
        told, found = self.both("resnet18")
        self.assertEqual(len(found), len(told))
        for known, row in zip(told, found, strict=True):
            if not row.get("ambiguity"):
                self.assertEqual((row["calls"], row["flops"]), (known["calls"], known["flops"]), row["layer"])


if __name__ == "__main__":
    frameworks.e2e.main()
