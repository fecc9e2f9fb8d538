"""The `layout` table against the reorder lines of oneDNN's own log, counted here independently."""

import collections

import frameworks
from frameworks import e2e, program

STEPS = 6


class Layout(frameworks.Case):
    def table(self, *arguments):
        """The witness's reorders and the table's rows for the same program."""
        argv = program("cnn", STEPS, 1, *arguments)
        witness = frameworks.reorders(self.witness(argv))
        rows = self.recorded("launcher", argv).table("layout")
        return witness, rows

    def check_counts(self, witness, rows):
        counted = collections.Counter()
        for row in rows:
            counted[frameworks.Reorder(row["from"], row["to"], row["dims"])] += row["calls"]
        self.assertEqual(counted, witness)
        for row in rows:
            size = 4
            for dimension in row["dims"].split("x"):
                size *= int(dimension)
            # Read once, written once; blocked formats may be padded, so this is a lower bound.
            self.assertGreaterEqual(row["bytes"], 2 * size, row)

    def test_plain_cnn_goes_back_and_forth(self):
        witness, rows = self.table()
        self.check_counts(witness, rows)
        # Between the two convolutions: out of oneDNN's blocked format to abcd and back, forward and backward.
        blocked = next(row["from"] for row in rows if row["dims"] == "8x16x32x32" and row["to"] == "abcd")
        self.assertNotEqual(blocked, "abcd")
        away = witness[blocked, "abcd", "8x16x32x32"]
        back = witness["abcd", blocked, "8x16x32x32"]
        self.assertGreaterEqual(min(away, back), 2 * STEPS)
        between = [row for row in rows if row["dims"] == "8x16x32x32" and row["written_by"] and row["read_by"]]
        for source, target in ((blocked, "abcd"), ("abcd", blocked)):
            here = [row for row in between if (row["from"], row["to"]) == (source, target)]
            self.assertGreaterEqual(sum(row["round_trip_calls"] for row in here), STEPS)
            self.assertEqual(sorted(row["written_by"].split()[-1] for row in here), ["backward-data", "forward"])
            self.assertEqual(sorted(row["read_by"].split()[-1] for row in here), ["backward-weights", "forward"])
        self.assertEqual(sum(row["round_trip_calls"] for row in rows) % 2, 0)

    def test_channels_last_shows_only_what_is_there(self):
        witness, rows = self.table("channels_last")
        self.check_counts(witness, rows)
        activations = {"8x3x32x32", "8x16x32x32"}
        self.assertEqual([row for row in rows if row["dims"] in activations],
                         [row for row in rows if (row["from"], row["to"], row["dims"]) in witness
                          and row["dims"] in activations])
        self.assertEqual([row["round_trip_calls"] for row in rows if row["dims"] in activations and
                          row["round_trip_calls"]], [])


if __name__ == "__main__":
    e2e.main()
